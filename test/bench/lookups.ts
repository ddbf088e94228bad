import { median, type Row, spreadOf } from './row.ts'
import type { Served } from './servers.ts'

/**
 * Times single reads that ask git: of repositories without a git process, then of one that has a
 * process.
 */
export async function measureLookups({ fixture, server }: Served): Promise<Row[]> {
  const cold = fixture.untouched.map(({ name, sha }) => `${name}/commits/${sha}`)
  const warm = fixture.silent.slice(0, cold.length).map((sha) => `silent/commits/${sha}`)
  return [
    await timed('git lookup, cold, one at a time', server.url, cold),
    await timed('git lookup, warm, one at a time', server.url, warm),
  ]
}

async function timed(name: string, url: string, commits: string[]): Promise<Row> {
  const times: number[] = []
  for (const commit of commits) {
    const begin = performance.now()
    const answer = await fetch(`${url}/api/v1/repos/alice/${commit}/statuses`)
    await answer.arrayBuffer()
    times.push(performance.now() - begin)
    if (answer.status !== 200) throw new Error(`${name}: ${answer.status}`)
  }
  return { name, value: median(times), unit: 'ms', spread: spreadOf(times) }
}

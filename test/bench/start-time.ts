import { startProcess } from './processes.ts'
import { median, type Row, spreadOf, type Target } from './row.ts'

/** A server whose start time is measured. */
export interface Start {
  name: string
  args: string[]
  env?: NodeJS.ProcessEnv
  /** A read that is answered 200 once the server accepts requests. */
  path: string
  against?: { name: string; target: Target }[]
}

/**
 * Measures the time from the start of a process to its first answer. Returns a row for each
 * baseline.
 */
export async function measureStarts(starts: Start[], rounds: number): Promise<Row[]> {
  const times = new Map(starts.map(({ name }): [string, number[]] => [name, []]))
  for (let round = 0; round < rounds; round++)
    for (const start of starts) times.get(start.name)?.push(await startOnce(start))

  return starts.flatMap(({ name, against = [] }) => {
    const mine = times.get(name) ?? []
    const row: Row = { name, value: median(mine), unit: 'ms', spread: spreadOf(mine) }
    if (against.length === 0) return [row]
    return against.map(({ name: other, target }) => ({
      ...row,
      against: other,
      ratio: row.value / median(times.get(other) ?? []),
      target,
    }))
  })
}

/** Milliseconds. */
async function startOnce({ name, args, env, path }: Start): Promise<number> {
  const begin = performance.now()
  const server = await startProcess(args, env)
  try {
    const answer = await fetch(server.url + path)
    await answer.arrayBuffer()
    if (answer.status !== 200) throw new Error(`${name}: ${answer.status}`)
    return performance.now() - begin
  } finally {
    await server.stop()
  }
}

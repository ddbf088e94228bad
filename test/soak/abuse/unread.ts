import { setTimeout } from 'node:timers/promises'
import { spooledFiles, workersIn } from '../../git-http/raw.ts'
import { requestBytes } from '../../helpers/keep-alive.ts'
import { during, type Hold } from '../parts/attack.ts'
import type { Figures } from '../parts/figures.ts'
import { whileReading } from '../parts/readers.ts'
import { type Fixture, statusesOf } from './fixture.ts'
import { connectionsFrom } from './pipelined.ts'

const CONNECTIONS = 20
/**
 * Milliseconds until the last connection is gone: a client that takes nothing is disconnected after
 * 20 to 40 s, but answers to a client wait for each other, and a connection whose request was
 * refused is idle for 66 s.
 */
const LIMIT = 90_000

/** Asks for large answers on 60 connections and reads none, while others read. */
export async function leaveUnread(fixture: Fixture): Promise<Figures[]> {
  const { url, pid, commits, large } = fixture
  const common = { kind: 'hold', url, connections: CONNECTIONS, seconds: 300 } as const
  const kinds = {
    'API answers': requestBytes('GET', statusesOf(commits.large)).toString(),
    assets: requestBytes('GET', '/assets/swagger-ui-bundle.js').toString().repeat(20),
    clones: large.clone,
  }
  const attacks = Object.values(kinds).map(
    (bytes, index): Hold => ({ ...common, addresses: [`127.0.0.${index + 2}`], bytes }),
  )
  /** Milliseconds after which connections were gone, by address. */
  const gone = attacks.map((): number[] => [])
  const reads = await during(attacks, () =>
    whileReading(fixture.read, async () => {
      await setTimeout(3_000)
      const began = performance.now()
      const isOver = () => gone.every((times) => times.length === CONNECTIONS)
      while (!isOver() && performance.now() - began < 1.5 * LIMIT) {
        for (const [index, times] of gone.entries()) {
          const left = connectionsFrom(`127.0.0.${index + 2}`, url)
          while (times.length < CONNECTIONS - left) times.push(performance.now() - began)
        }
        await setTimeout(500)
      }
    }),
  )
  const workers = workersIn(large.path).length
  const spooled = spooledFiles(pid).length
  const rows = Object.keys(kinds).map((kind, index): Figures => {
    const latencies = gone[index] ?? []
    const failures = Array.from({ length: CONNECTIONS - latencies.length }, () => 'still open')
    if (kind === 'clones' && workers > 0) failures.push(`${workers} processes of git are left`)
    if (kind === 'clones' && spooled > 0) failures.push(`${spooled} answers are left on the disk`)
    const kept = failures.length === 0 && latencies.every((time) => time < LIMIT)
    return {
      name: `unread: ${kind}, until closed`,
      latencies,
      failures,
      promise: { text: `all are closed within ${LIMIT / 1000} s`, kept },
    }
  })
  return [...rows, { name: 'unread: API reads of others', ...reads }]
}

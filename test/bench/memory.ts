import { putLoad } from './load-generator.ts'
import { startProcess } from './processes.ts'
import { teamRequests } from './requests.ts'
import type { Row } from './row.ts'
import { ourCommand, type Served } from './servers.ts'

/**
 * Numbers of requests after which the memory is measured. The first is the baseline of the others.
 */
const FIRST = 10_000
const LATER = [100_000, 250_000, 500_000, 1_000_000]
/**
 * Reads per request of the mix. A million requests of the mix alone would take minutes, spent
 * waiting for the disk.
 */
const READS = 9
const MIXED = 400
/** Seconds after which a slow machine stops before a million. */
const TIMEOUT = 100
const MAX_RATIO = 1.5
const MIB = 1024 ** 2

/** Sends a million requests to a fresh server and measures its memory on the way. */
export async function measureMemory({ fixture }: Served, signal: AbortSignal): Promise<Row[]> {
  const { args, env } = ourCommand(fixture)
  const server = await startProcess(args, env)
  const { mix, reads } = teamRequests(fixture, READS * MIXED)
  const requests = mix
    .slice(0, MIXED)
    .flatMap((request, index) => [request, ...reads.slice(index * READS, (index + 1) * READS)])
  const deadline = performance.now() + TIMEOUT * 1000
  const seen: { answered: number; memory: number }[] = []
  let answered = 0
  try {
    for (const count of [FIRST, ...LATER]) {
      while (answered < count && performance.now() < deadline) {
        signal.throwIfAborted()
        const load = { url: server.url, connections: 32, seconds: 1, requests }
        const { statuses } = await putLoad(load)
        answered += Object.values(statuses).reduce((sum, some) => sum + some, 0)
      }
      if (answered > (seen.at(-1)?.answered ?? 0)) seen.push({ answered, memory: server.memory() })
    }
    return rowsOf(seen)
  } finally {
    await server.stop()
  }
}

function rowsOf(seen: { answered: number; memory: number }[]): Row[] {
  const nameOf = (answered = 0) => `memory after ${answered.toLocaleString('en')} requests`
  const [first] = seen
  return seen.map(({ answered, memory }, index) => ({
    name: nameOf(answered),
    value: memory / MIB,
    unit: 'MiB',
    ...(first && index > 0 && { against: nameOf(first.answered), ratio: memory / first.memory }),
    ...(index > 0 && index === seen.length - 1 && { target: { atMost: MAX_RATIO } }),
  }))
}

import { putLoad } from './load-maker.ts'
import { startProcess } from './processes.ts'
import { teamRequests } from './requests.ts'
import type { Row } from './row.ts'
import { ourCommand, type Served } from './servers.ts'

/** Requests after which the memory is looked at; the first is what the others are compared with. */
const FIRST = 10_000
const LATER = [100_000, 250_000, 500_000, 1_000_000]
const MOST = 1.5
const MIB = 1024 ** 2

/** For each of the mix so many reads: a million of the mix alone would take minutes of waiting for the disk. */
const READS = 9
const MIXED = 400

/** Sends a million requests to a server just started, and looks at its memory on the way. */
export async function measureMemory({ fixture }: Served): Promise<Row[]> {
  const { args, env } = ourCommand(fixture)
  const server = await startProcess(args, env)
  const { mix, reads } = teamRequests(fixture, READS * MIXED)
  const requests = mix
    .slice(0, MIXED)
    .flatMap((request, index) => [request, ...reads.slice(index * READS, (index + 1) * READS)])
  let answered = 0
  let rate = FIRST

  /** Bytes in use as soon as so many requests have been answered, or up to a second later. */
  async function memoryAfter(count: number): Promise<number> {
    while (answered < count) {
      const seconds = Math.ceil((count - answered) / rate)
      const load = { url: server.url, connections: 32, seconds, requests }
      const { statuses } = await putLoad(load)
      const answers = Object.values(statuses).reduce((sum, some) => sum + some, 0)
      answered += answers
      rate = answers / seconds
    }
    return server.memory()
  }

  try {
    const first = await memoryAfter(FIRST)
    const rows: Row[] = [{ name: nameOf(FIRST), value: first / MIB, unit: 'MiB' }]
    for (const count of LATER) {
      const memory = await memoryAfter(count)
      const aim = count === LATER.at(-1) && { aim: { atMost: MOST } }
      const compared = { against: nameOf(FIRST), ratio: memory / first, ...aim }
      rows.push({ name: nameOf(count), value: memory / MIB, unit: 'MiB', ...compared })
    }
    return rows
  } finally {
    await server.stop()
  }
}

function nameOf(count: number): string {
  return `memory after ${count.toLocaleString('en')} requests`
}

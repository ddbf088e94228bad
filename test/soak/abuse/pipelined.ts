import { readFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import type { Hold } from './attack.ts'
import { during } from './attackers.ts'
import { bytesOf } from './bytes.ts'
import { connectionsFrom } from './connections.ts'
import { type Figures, quantileOf } from './figures.ts'
import type { Fixture } from './fixture.ts'
import { readUrl, whileReading } from './readers.ts'

const CONNECTIONS = 500
const REQUESTS = 100
/** Milliseconds after which no connection may be open. */
const CLOSED = 90_000
/** MiB that the server takes at most. */
const MEMORY = 600
/** Milliseconds, unless the reads take a third of this without the attack: then the machine is busy with other things. */
const READ_LIMIT = 25
const SLOWER = 3

/** Pipelines reads of commits with answers of 1 MB on many connections and reads none of them, while others read. */
export async function pipelineReads(fixture: Fixture): Promise<Figures[]> {
  const { url, commits, pid } = fixture
  const paths = commits.megabyte.map((sha) =>
    bytesOf('GET', `/api/v1/repos/alice/demo/commits/${sha}/statuses`),
  )
  const bytes = Array.from({ length: REQUESTS }, (_, index) => paths[index % paths.length]).join('')
  const addresses = [2, 3, 4, 5, 6].map((last) => `127.0.0.${last}`)
  const attack: Hold = {
    kind: 'hold',
    url,
    addresses,
    connections: CONNECTIONS,
    seconds: 300,
    reads: false,
    bytes,
  }
  const gone: number[] = []
  let peak = 0
  const alone = await whileReading(readUrl(fixture), () => setTimeout(20_000))
  const reads = await during([attack], () =>
    whileReading(readUrl(fixture), async () => {
      const left = () => addresses.reduce((sum, address) => sum + connectionsFrom(address, url), 0)
      while (left() < CONNECTIONS) await setTimeout(10)
      const began = performance.now()
      while (performance.now() - began < CLOSED) {
        peak = Math.max(peak, memoryOf(pid))
        const open = left()
        while (gone.length < CONNECTIONS - open) gone.push(performance.now() - began)
        await setTimeout(200)
      }
    }),
  )
  const limit = Math.max(READ_LIMIT, Math.ceil(SLOWER * quantileOf(alone.latencies, 0.99)))
  return [
    { name: 'pipelined: API reads before the attack', ...alone },
    reads.promise(`pipelined: API reads beside ${CONNECTIONS} connections`, 0.99, limit),
    {
      name: 'pipelined: connections, until closed',
      latencies: gone,
      failures: Array.from({ length: CONNECTIONS - gone.length }, () => 'still open'),
      promise: { text: `all are closed within ${CLOSED / 1000} s`, kept: gone.length === CONNECTIONS },
    },
    {
      name: `pipelined: memory, ${peak} MiB`,
      latencies: [],
      failures: [],
      promise: { text: `at most ${MEMORY} MiB`, kept: peak > 0 && peak <= MEMORY },
    },
  ]
}

/** Returns the memory of a process in MiB. */
function memoryOf(pid: number): number {
  const [, kib] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Math.round(Number(kib) / 1024)
}

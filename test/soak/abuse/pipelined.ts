import { readFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { MAX_WAITING } from '../../../src/http/pipelining.ts'
import { requestBytes } from '../../helpers/keep-alive.ts'
import { memoryOf } from '../../helpers/process.ts'
import { during, type Hold } from '../parts/attack.ts'
import { type Figures, quantileOf } from '../parts/figures.ts'
import { whileReading } from '../parts/readers.ts'
import { type Fixture, statusesOf } from './fixture.ts'

const CONNECTIONS = 500
/** Requests on each connection: fewer than the server lets wait, and more. */
const REQUESTS = [100, MAX_WAITING + 2]
/** Milliseconds in which all connections are opened, and after which none may be open. */
const OPENED = 5_000
const CLOSED = 90_000
/** MiB that the server takes at most. */
const MEMORY = 600
/**
 * Milliseconds, unless the reads take a third of this without the attack: then the machine is busy
 * with other things.
 */
const READ_LIMIT = 25
const SLOWER = 3
const ADDRESSES = [2, 3, 4, 5, 6].map((last) => `127.0.0.${last}`)

/**
 * Pipelines reads of commits with answers of 1 MB on many connections and reads none of them, while
 * others read.
 */
export async function pipelineReads(fixture: Fixture): Promise<Figures[]> {
  const alone = await whileReading(fixture.read, () => setTimeout(20_000))
  const limit = Math.max(READ_LIMIT, Math.ceil(SLOWER * quantileOf(alone.latencies, 0.99)))
  const rows: Figures[] = [{ name: 'pipelined: API reads before the attack', ...alone }]
  for (const requests of REQUESTS) rows.push(...(await attackWith(fixture, requests, limit)))
  return rows
}

async function attackWith(fixture: Fixture, requests: number, limit: number): Promise<Figures[]> {
  const { url, commits, pid } = fixture
  const reads = commits.megabyte.map((sha) => requestBytes('GET', statusesOf(sha)).toString())
  const attack: Hold = {
    kind: 'hold',
    url,
    addresses: ADDRESSES,
    connections: CONNECTIONS,
    seconds: 300,
    bytes: Array.from({ length: requests }, (_, index) => reads[index % reads.length]).join(''),
  }
  const closed: number[] = []
  let peak = 0
  const others = await during([attack], () =>
    whileReading(fixture.read, async () => {
      const began = performance.now()
      for (let time = 0; time < CLOSED; time = performance.now() - began) {
        peak = Math.max(peak, memoryOf(pid))
        if (time > OPENED) {
          const open = ADDRESSES.reduce((sum, address) => sum + connectionsFrom(address, url), 0)
          while (closed.length < CONNECTIONS - open) closed.push(time)
        }
        await setTimeout(200)
      }
    }),
  )
  const what = `${CONNECTIONS} connections with ${requests} requests`
  return [
    others.promise(`pipelined: API reads beside ${what}`, 0.99, limit),
    {
      name: `pipelined: ${what}, until closed`,
      latencies: closed,
      failures: Array.from({ length: CONNECTIONS - closed.length }, () => 'still open'),
      promise: { text: `all are closed within ${CLOSED / 1000} s`, kept: closed.length === CONNECTIONS },
    },
    {
      name: `pipelined: ${peak} MiB of memory`,
      latencies: [],
      failures: [],
      promise: { text: `at most ${MEMORY} MiB`, kept: peak > 0 && peak <= MEMORY },
    },
  ]
}

/** Returns the number of connections from a loopback address that the server has not closed. */
export function connectionsFrom(address: string, url: string): number {
  const hex = (number: number, digits: number) => number.toString(16).toUpperCase().padStart(digits, '0')
  const bytes = address.split('.').toReversed().map(Number)
  const client = ` ${bytes.map((byte) => hex(byte, 2)).join('')}:`
  const server = `:${hex(Number(new URL(url).port), 4)}`
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n')
  return lines.filter((line) => {
    // sl, local address, remote address, state: 01 is an established connection, 08 one that the
    // client has ended.
    const [, local = '', , state = ''] = line.trim().split(/\s+/)
    return local.endsWith(server) && line.includes(client) && (state === '01' || state === '08')
  }).length
}

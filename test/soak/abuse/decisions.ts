import { Agent, get } from 'node:http'
import { memoryOf } from '../../helpers/process.ts'
import type { Figures } from '../parts/figures.ts'
import { whileReading } from '../parts/readers.ts'
import type { Fixture } from './fixture.ts'

const ADDRESSES = [2, 3, 4, 5, 6, 7].map((last) => `127.0.0.${last}`)
const REQUESTS = 20_000
/** Requests of an address that are under way. */
const AT_ONCE = 3
/** Milliseconds that the reads of others take at most. */
const READ_LIMIT = 100
/**
 * MiB that the server uses more at the end, at most. Garbage of requests and what the allocator keeps
 * comes and goes with any load.
 */
const MEMORY = 64

/**
 * Asks for the last commit that passed, with another required check each time, so that nothing can
 * be taken from memory and each question decides about 300 commits, while others read.
 */
export async function askWithoutEnd(fixture: Fixture): Promise<Figures[]> {
  const { url, pid } = fixture
  const questions = `${url}/api/v1/repos/alice/demo/last-passed?branch=main&require=`
  // Whatever a server needs for such questions at all.
  await askFrom(ADDRESSES[0] ?? '', questions, () => 'first', 100)
  const [before, resident] = [await fixture.usedMemory(), memoryOf(pid)]
  let [asked, peak] = [0, 0]
  const failures: string[] = []
  const others = await whileReading(fixture.read, () =>
    Promise.all(
      ADDRESSES.flatMap((address) => Array(AT_ONCE).fill(address)).map((address: string) =>
        askFrom(
          address,
          questions,
          () => {
            peak = Math.max(peak, memoryOf(pid))
            return asked++ < REQUESTS ? `check-${asked}` : null
          },
          Number.POSITIVE_INFINITY,
          failures,
        ),
      ),
    ),
  )
  const more = (await fixture.usedMemory()) - before
  return [
    others.promise(`decisions: API reads beside ${REQUESTS} questions`, 0.99, READ_LIMIT),
    {
      name: `decisions: ${more} MiB more in use than ${before} MiB, ${peak - resident} MiB more resident`,
      latencies: [],
      failures,
      promise: { text: `at most ${MEMORY} MiB more in use`, kept: failures.length === 0 && more <= MEMORY },
    },
  ]
}

/** Asks one question after the other, until there is none. */
async function askFrom(
  localAddress: string,
  questions: string,
  next: () => string | null,
  count: number,
  failures: string[] = [],
): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  for (let index = 0; index < count; index++) {
    const check = next()
    if (check === null) break
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>()
    get(questions + check, { agent, localAddress }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode))
    }).on('error', reject)
    const status = await promise
    if (status !== 200) failures.push(`${status}`)
  }
  agent.destroy()
}

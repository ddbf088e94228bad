import { Agent } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import type { Loop } from './attack.ts'
import { during } from './attackers.ts'
import { type Figures, quantileOf, Tally } from './figures.ts'
import type { Fixture } from './fixture.ts'
import { ask, readUrl, whileReading } from './readers.ts'

const LOOPS = 50
const SECONDS = 20
/** Milliseconds, unless the reads take a third of this without the attack: then the machine is busy with other things. */
const READ_LIMIT = 20
const SLOWER = 3

/** Loads a repository's page in many loops, from a few addresses, while others read and look at the same page. */
export async function loopOnPages(fixture: Fixture): Promise<Figures[]> {
  const path = '/alice/demo'
  const attack: Loop = {
    kind: 'loop',
    url: fixture.url,
    addresses: [2, 3, 4, 5, 6].map((last) => `127.0.0.${last}`),
    connections: LOOPS,
    seconds: SECONDS + 10,
    method: 'GET',
    path,
    headers: {},
    body: '',
    perAddress: Number.MAX_SAFE_INTEGER,
  }
  const visits = new Tally()
  const agent = new Agent({ keepAlive: true })
  const alone = await whileReading(readUrl(fixture), () => setTimeout(SECONDS * 1000))
  const reads = await during([attack], async () => {
    await setTimeout(2_000)
    return whileReading(readUrl(fixture), async () => {
      const end = performance.now() + SECONDS * 1000
      while (performance.now() < end) {
        await visits.measure(() => ask(fixture.url + path, agent))
        await setTimeout(200)
      }
    })
  })
  agent.destroy()
  const limit = Math.max(READ_LIMIT, Math.ceil(SLOWER * quantileOf(alone.latencies, 0.99)))
  return [
    { name: 'pages: API reads before the attack', ...alone },
    reads.promise(`pages: API reads beside ${LOOPS} loops`, 0.99, limit),
    { name: 'pages: the same page, from another address', ...visits },
  ]
}

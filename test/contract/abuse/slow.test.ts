import t from 'tap'
import { contractFile } from '../../helpers/contract.ts'
import { startServer } from '../../helpers/server.ts'
import { Client } from '../client.ts'
import { createFixture } from '../fixture.ts'
import { readContract } from '../spec.ts'
import { storeAdministration } from '../store-administration.ts'
import { exchange } from '../wire.ts'
import { get, post, type Target } from './cases.ts'
import { targetOf } from './run.ts'

const CLIENTS = 150

t.test('hundreds of slow clients are cut off while others are served', async (t) => {
  const server = await startServer(t, { timeouts: { headers: 1_000, body: 1_000, idle: 4_000 } })
  const client = new Client(await readContract(contractFile), server.url)
  t.teardown(() => client.close())
  const fixture = await createFixture(storeAdministration(server.store), 4)
  const target = targetOf({ client, fixture, seed: 0, runs: 1, failuresLeft: 0 })
  const stranger: Target = { ...target, token: fixture.stranger.secret }
  const hidden = { ...stranger, path: target.path.replace('/open/', '/closed/') }
  const type = 'Content-Type: application/json'
  const slow: [name: string, part: string | Uint8Array, statuses: number[]][] = [
    ['nothing at all', '', [408]],
    ['half a request line', 'GET /api', [408]],
    ['headers without an end', `GET / HTTP/1.1\r\nHost: x\r\nX-A: b\r\n`, [408]],
    ['a body that stops', post(target, [type, 'Content-Length: 100'], '{"state":'), [408]],
    ['a body that never begins', post(target, [type, 'Content-Length: 100']), [408]],
    ['chunks that stop', post(target, [type, 'Transfer-Encoding: chunked'], '5\r\n{"st'), [408]],
    ['a rejected body that never comes', post(hidden, [type, 'Content-Length: 100']), [404]],
    ['a rejected body that stops', post(hidden, [type, 'Content-Length: 100'], '{'), [404]],
    ['refused chunks that never come', post(hidden, [type, 'Transfer-Encoding: chunked']), [404]],
  ]
  const good = () => exchange(client.baseUrl, [get(target)])

  for (const [name, part, statuses] of slow) {
    await t.test(name, async (t) => {
      const waiting = Array.from({ length: CLIENTS }, () =>
        exchange(client.baseUrl, [part], { expect: statuses.length + 1, timeout: 30_000 }),
      )
      const during = await good()
      t.equal(during.answers[0]?.status, 200, 'other clients are served meanwhile')
      const exchanges = await Promise.all(waiting)
      t.equal(exchanges.filter(({ closed }) => closed).length, CLIENTS, 'every connection is closed')
      const wrong = exchanges
        .map(({ answers }) => answers.map(({ status }) => status))
        .filter((found) => found.join() !== statuses.join())
      t.strictSame(wrong.slice(0, 3), [], `answered ${statuses}`)
      t.equal((await good()).answers[0]?.status, 200)
    })
  }
})

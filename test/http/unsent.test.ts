import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import t from 'tap'
import { createUnsentLimit } from '../../src/http/unsent.ts'

const large = Buffer.alloc(100 * 1024)
const answer = () => new ServerResponse(new IncomingMessage(new Socket()))

t.test('the client with the most unsent bytes loses its oldest answer', async (t) => {
  const limitUnsent = createUnsentLimit(3 * large.length)
  const [first, second, third, fourth] = [answer(), answer(), answer(), answer()]
  limitUnsent({ client: { address: '192.0.2.2' } }, first, large)
  limitUnsent({ client: { address: '192.0.2.1' } }, second, large)
  limitUnsent({ client: { address: '192.0.2.1' } }, third, large)
  limitUnsent({ client: { address: '192.0.2.1' } }, answer(), large.subarray(0, 1024))
  t.notOk(third.destroyed, 'what is within the limit waits')
  limitUnsent({ client: { address: '192.0.2.1' } }, fourth, large)
  t.same(
    [first, second, third, fourth].map(({ destroyed }) => destroyed),
    [false, true, false, false],
  )
})

t.test('an answer that has been sent no longer counts', async (t) => {
  const limitUnsent = createUnsentLimit(2 * large.length)
  const sent = Array.from({ length: 5 }, answer)
  for (const each of sent) {
    limitUnsent({ client: { address: '192.0.2.1' } }, each, large)
    each.emit('close')
  }
  const [waiting, another] = [answer(), answer()]
  limitUnsent({ client: { address: '192.0.2.1' } }, waiting, large)
  limitUnsent({ client: { address: '192.0.2.1' } }, another, large)
  t.notOk([...sent, waiting, another].some(({ destroyed }) => destroyed))
})

t.test('an answer that ends early gives back its bytes once', async (t) => {
  const limitUnsent = createUnsentLimit(2 * large.length)
  const client = { client: { address: '192.0.2.1' } }
  const ended = answer()
  limitUnsent(client, ended, large)
  for (let times = 0; times < 3; times++) ended.emit('close')
  const waiting = [answer(), answer(), answer()]
  for (const each of waiting) limitUnsent(client, each, large)
  t.same(
    waiting.map(({ destroyed }) => destroyed),
    [true, false, false],
  )
})

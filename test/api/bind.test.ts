import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import Fastify from 'fastify'
import t, { type Test } from 'tap'
import { type Binding, bindOperations } from '../../src/api/bind.ts'
import { writeGenerated } from '../../src/codegen/generate.ts'
import { ServiceError } from '../../src/errors.ts'
import { sendError } from '../../src/http/replies.ts'

const spec = resolve(import.meta.dirname, '../codegen/fixtures/parcels.yaml')

interface Order {
  to: string
  kind: string
  weight?: number
  note?: string
}
interface Call {
  params: { depot: string; number?: string }
  body: Order
}

/** Handlers of the small contract: parcels in memory. */
function parcelHandlers() {
  const parcels = new Map<string, object>()
  return {
    async sendParcel({ params, body }: Call, caller: string) {
      const number = parcels.size + 1
      const { to, kind, weight = null, note = null } = body
      const parcel = { number, to, kind, weight, note, depot: params.depot, caller }
      parcels.set(String(number), parcel)
      return { status: 202, body: parcel }
    },
    async listParcels() {
      return { status: 200, body: [...parcels.values()] }
    },
    async recallParcel({ params }: Call) {
      const recalled = parcels.delete(params.number ?? '')
      return recalled ? { status: 204, body: null } : { status: 404, body: { error: 'no such parcel' } }
    },
  }
}

const folder = await mkdtemp(join(tmpdir(), 'parcels-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
await writeGenerated({ spec, server: join(folder, 'server'), client: join(folder, 'client') })
const { operations } = await import(join(folder, 'server/operations.ts'))
const { schemas } = await import(join(folder, 'server/schemas.ts'))

/** Binds the operations of the small contract to handlers. */
async function bind(t: Test, change: Partial<Binding<string>> = {}) {
  const app = Fastify()
  t.teardown(() => app.close())
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))
  app.setErrorHandler((error, _request, reply) => sendError(reply, error, 'Bearer'))
  bindOperations<string>(app, {
    operations,
    schemas,
    handlers: parcelHandlers(),
    schemes: ['accessKey'],
    async authorize({ headers }, { access, schemes, anonymous }) {
      if (!anonymous && headers.authorization === undefined) throw new ServiceError('credential_missing')
      return [access, ...schemes].join(' ')
    },
    bodyTimeout: 1_000,
    verifyReplies: true,
    ...change,
  })
  return app
}

t.test('another contract is served without a change of the generator', async (t) => {
  const app = await bind(t, { verifyReplies: false })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const ask = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`${url}/depots/${path}`, {
      method,
      headers: { authorization: 'x', ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return [response.status, text === '' ? null : JSON.parse(text)]
  }
  const send = (order: object) => ask('POST', 'oslo/parcels', order)

  const first = { number: 1, to: 'Ada', kind: 'letter', weight: null, note: null }
  t.same(await send({ to: 'Ada' }), [202, first], 'a default, and none of what the schema does not name')
  const second = { number: 2, to: 'Ben', kind: 'box', weight: 7, note: 'é' }
  t.same(await send({ to: 'Ben', kind: 'box', weight: 7, note: 'é' }), [202, second], 'an optional field')
  t.same(await ask('GET', 'oslo/parcels'), [200, [first, second]])
  t.same(await ask('DELETE', 'oslo/parcels/1'), [204, null], 'an answer without a body')
  t.same(await ask('DELETE', 'oslo/parcels/1'), [404, { error: 'no such parcel' }])
  t.same(await ask('GET', 'oslo/parcels'), [200, [second]])

  const refusals = [
    [{}, 'to is missing; it is required'],
    [{ to: '' }, 'to is 0 characters long; at least 1 is needed'],
    [{ to: 'A', kind: 'bag' }, 'kind must be one of letter, box; got "bag"'],
    [{ to: 'A', weight: 1.5 }, 'weight must be an integer; got 1.5'],
    [{ to: 'A', weight: 0 }, 'weight must be >= 1; got 0'],
    [{ to: 'A', note: 'ééééé' }, 'note is 10 bytes long; at most 8 are allowed'],
    [[], 'the body must be a JSON object; got []'],
  ] as const
  for (const [order, error] of refusals) t.same(await send(order), [422, { error }])
  t.same(await send({ to: 'x'.repeat(200) }), [413, { error: 'The body is larger than 200 bytes.' }])
  t.same(await ask('GET', 'bergen/parcels'), [
    422,
    { error: 'depot is 6 characters long; at most 5 are allowed' },
  ])
  t.match(await ask('DELETE', 'oslo/parcels/0'), [422, { error: /^number must match pattern/ }])

  const anonymous = await fetch(`${url}/depots/oslo/parcels`)
  t.equal(anonymous.status, 200, 'security {}: without a credential')
  t.equal(anonymous.headers.has('etag'), true)
  const refused = await fetch(`${url}/depots/oslo/parcels/2`, { method: 'DELETE' })
  t.equal(refused.status, 401, "the document's security holds where an operation has none of its own")
})

t.test('does not start', async (t) => {
  const { listParcels: _left, ...incomplete } = parcelHandlers()
  await t.rejects(bind(t, { handlers: incomplete }), { message: 'listParcels: there is no handler' })
  await t.rejects(bind(t, { handlers: { ...parcelHandlers(), recallParcel: 1 } }), {
    message: /^recallParcel: /,
  })
  await t.rejects(
    bind(t, { schemes: ['other'] }),
    { message: 'sendParcel: nobody implements the security scheme "accessKey"' },
    'with a security scheme that nobody implements',
  )
})

t.test('an answer that the contract does not declare is never sent', async (t) => {
  const parcel = { number: 1, to: 'Ada', kind: 'letter', weight: null, note: null }
  const answers = [
    ['a status that is not declared', { status: 200, body: parcel }],
    ['a field is missing', { status: 202, body: { ...parcel, to: undefined } }],
    ['a field is of a wrong type', { status: 202, body: { ...parcel, weight: '7' } }],
    ['null where it is not allowed', { status: 202, body: { ...parcel, to: null } }],
    ['a field that is not declared', { status: 202, body: { ...parcel, secret: 1 } }],
  ] as const
  for (const [what, answer] of answers) {
    const app = await bind(t, { handlers: { ...parcelHandlers(), sendParcel: async () => answer } })
    const response = await app.inject({
      method: 'POST',
      url: '/depots/oslo/parcels',
      headers: { authorization: 'x', 'content-type': 'application/json' },
      payload: '{"to":"Ada"}',
    })
    t.equal(response.statusCode, 500, what)
    t.notMatch(response.body, /Ada|secret/, 'and tells nothing of the inside')
  }
})

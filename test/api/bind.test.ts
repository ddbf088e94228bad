import t from 'tap'
import type { Derived } from '../../generated/handlers.ts'
import { derive } from '../../src/api/answers.ts'
import { queryReader } from '../../src/api/query.ts'
import { ajvFor } from '../../src/api/validator.ts'
import { ServiceError } from '../../src/errors.ts'
import { type Answer, bindParcels, parcelHandlers } from './parcels.ts'

const PARCELS = '/depots/nordic/oslo/parcels'

t.test('another contract is served without changes to the generator', async (t) => {
  const app = await bindParcels(t, { verifyReplies: false })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const ask = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(`${url}/depots/nordic/${path}`, {
      method,
      headers: { authorization: 'x', ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return [response.status, text === '' ? null : JSON.parse(text)]
  }
  const send = (order: object) => ask('POST', 'oslo/parcels', order)

  const first = { number: 1, to: 'Ada', kind: 'letter', weight: null, note: null }
  t.same(await send({ to: 'Ada' }), [202, first], 'defaults are filled in, and unknown fields dropped')
  const second = { number: 2, to: 'Ben', kind: 'box', weight: 7, note: 'é' }
  t.same(await send({ to: 'Ben', kind: 'box', weight: 7, note: 'é' }), [202, second], 'an optional field')
  t.same(await ask('GET', 'oslo/parcels'), [200, [first, second]])
  t.same(await ask('DELETE', 'oslo/parcels/1'), [204, null], 'an answer without a body')
  t.same(await ask('DELETE', 'oslo/parcels/1'), [404, { error: 'no such parcel' }])
  t.same(await ask('GET', 'oslo/parcels'), [200, [second]])

  const refusals = [
    [{}, 'to is missing; it is required'],
    [{ to: '' }, 'to is 0 characters long; at least 1 is required'],
    [{ to: 'unknown' }, 'to must be a known name; got "unknown"'],
    [{ to: 'a\ud800' }, 'to must be a known name; got "a\\ud800"'],
    [{ to: 'a\u0000' }, 'to must be a known name; got "a\\u0000"'],
    [{ to: 'A', kind: 'bag' }, 'kind must be one of letter, box; got "bag"'],
    [{ to: 'A', weight: 1.5 }, 'weight must be an integer; got 1.5'],
    [{ to: 'A', weight: 0 }, 'weight must be >= 1; got 0'],
    [{ to: 'A', note: 'ééééé' }, 'note is 10 bytes long; at most 8 are allowed'],
    [{ to: 'A', note: 'x'.repeat(30) }, 'note is 30 bytes long; at most 8 are allowed'],
    [[], 'the body must be a JSON object; got []'],
  ] as const
  for (const [order, error] of refusals) t.same(await send(order), [422, { error }])
  t.same(await send({ to: 'x'.repeat(200) }), [413, { error: 'The body is larger than 200 bytes.' }])
  t.same(await ask('GET', 'bergen/parcels'), [
    422,
    { error: 'repo is 6 characters long; at most 5 are allowed' },
  ])
  t.match(await ask('DELETE', 'oslo/parcels/0'), [422, { error: /^number must match pattern/ }])

  const anonymous = await fetch(url + PARCELS)
  t.equal(anonymous.status, 200, 'security {}: without a credential')
  t.equal(anonymous.headers.has('etag'), true)
  const refused = await fetch(`${url}${PARCELS}/2`, { method: 'DELETE' })
  t.equal(refused.status, 401, "the document's security applies to operations without their own")
})

t.test('a derived body is cached by its function and its source', async (t) => {
  const parcels = [{ number: 1, to: 'Ada', kind: 'letter', weight: null, note: null }]
  let weight = 1
  const weighed = (list: object[]) => list.map((parcel) => ({ ...parcel, weight }))
  const read = async (verifyReplies: boolean, list: () => Derived<object>) => {
    const reply = async () => ({ status: 200, derived: list(), headers: { 'X-Total-Count': 1 } })
    const app = await bindParcels(t, { verifyReplies, handlers: { ...parcelHandlers(), listParcels: reply } })
    const answers: unknown[] = []
    for (weight = 1; weight <= 2; weight++) {
      const { statusCode, body } = await app.inject(PARCELS)
      answers.push(statusCode === 200 ? JSON.parse(body)[0].weight : statusCode)
    }
    return answers
  }
  t.same(await read(false, () => derive(weighed, parcels)), [1, 1])
  t.same(await read(true, () => derive(weighed, parcels)), [1, 500], 'tests see that it has become stale')
  const inScope = () => derive((list) => weighed(list), parcels)
  t.same(await read(false, inScope), [1, 2], 'a function that could see more than the source is called again')
})

t.test('query parameters are converted to the declared types', async (t) => {
  const app = await bindParcels(t)
  const ask = async (query: string) => {
    const { statusCode, headers, body } = await app.inject(`${PARCELS}${query}`)
    return statusCode === 200
      ? JSON.parse(decodeURIComponent(String(headers.link)))
      : [statusCode, JSON.parse(body).error]
  }
  const defaults = { limit: 20, newest: false }
  t.same(await ask(''), defaults, 'defaults')
  t.same(await ask('?'), defaults)
  t.same(await ask('?limit=7&newest=true&min-weight=0.5&to=Ada'), {
    limit: 7,
    newest: true,
    'min-weight': 0.5,
    to: 'Ada',
  })
  t.same(await ask('?kind=box'), { ...defaults, kind: ['box'] }, 'an array of one')
  t.same(await ask('?kind=box&limit=1&kind=letter'), { ...defaults, limit: 1, kind: ['box', 'letter'] })
  t.same(await ask('?to=a+b%20c%2Bd%C3%A9%F0%9F%98%80'), { ...defaults, to: 'a b c+dé😀' })
  t.same(await ask('?t%6f=Ada'), { ...defaults, to: 'Ada' }, 'an encoded name')
  t.same(await ask('?to=007'), { ...defaults, to: '007' }, 'text stays text')
  t.same(await ask('?to=true'), { ...defaults, to: 'true' })
  t.same(await ask('?&&limit=7&'), { ...defaults, limit: 7 }, 'nothing between two separators')
  t.same(await ask('?to=Ada=Ben'), { ...defaults, to: 'Ada=Ben' })

  for (const [query, error] of [
    ['?limit=0', 'limit must be >= 1; got 0'],
    ['?limit=51', 'limit must be <= 50; got 51'],
    ['?limit=-1', 'limit must be >= 1; got -1'],
    ['?limit=1.5', 'limit must be an integer; got 1.5'],
    ['?limit=99999999999999999999', 'limit must be <= 50; got 100000000000000000000'],
    ['?limit=1e1', 'limit must be an integer; got "1e1"'],
    ['?limit=0x1', 'limit must be an integer; got "0x1"'],
    ['?limit=07', 'limit must be an integer; got "07"'],
    ['?limit=+7', 'limit must be an integer; got " 7"'],
    ['?limit=', 'limit must be an integer; got ""'],
    ['?limit', 'limit must be an integer; got ""'],
    ['?limit=null', 'limit must be an integer; got "null"'],
    ['?limit=1&limit=1', 'limit was sent more than once; send it once'],
    ['?newest=1', 'newest must be a boolean; got "1"'],
    ['?newest=TRUE', 'newest must be a boolean; got "TRUE"'],
    ['?min-weight=-0.5', 'min-weight must be >= 0; got -0.5'],
    ['?min-weight=NaN', 'min-weight must be a number; got "NaN"'],
    ['?to=', 'to is 0 characters long; at least 1 is required'],
    ['?kind=bag', 'kind.0 must be one of letter, box; got "bag"'],
    ['?kind=box&kind=box&kind=box', 'kind must NOT have more than 2 items; got ["box","box","box"]'],
    ...['x', '__proto__', 'constructor', 'limit[]', 'Limit', '', 'é'].map(
      (name) =>
        [
          `?to=Ada&${encodeURIComponent(name)}=1`,
          `"${name}" is an unknown query parameter; this operation takes kind, to, limit, min-weight and newest`,
        ] as const,
    ),
  ] as const)
    t.same(await ask(query), [422, error], query)
  const malformed = 'The URL is malformed. Its percent-encoding must be complete and valid UTF-8.'
  for (const query of ['?to=%zz', '?to=%ff', '?to=%ED%A0%80', '?to=100%', '?%zz=1', '?x=%ff', '?%'])
    t.same(await ask(query), [400, malformed], query)
})

t.test('a parameter may have the name of a member of Object.prototype', async (t) => {
  const names = ['constructor', 'toString', 'valueOf']
  const properties = Object.fromEntries(names.map((name) => [name, { type: 'string' }]))
  const read = queryReader(ajvFor({}), { type: 'object', required: [], properties })
  t.strictSame(Object.keys(read([])), [])
  for (const name of names) t.strictSame(Object.entries(read([[name, 'x']])), [[name, 'x']])
})

t.test('handlers set the headers that the contract declares', async (t) => {
  const app = await bindParcels(t)
  const list = await app.inject(PARCELS)
  t.equal(list.headers['x-total-count'], '0')
  const etag = String(list.headers.etag)
  const again = await app.inject({ url: PARCELS, headers: { 'if-none-match': etag } })
  t.equal(again.statusCode, 304)
  t.equal(again.headers['x-total-count'], '0', 'a 304 carries them too')

  const secret = { 'X-Total-Count': 0, 'X-Secret': 'x', 'Set-Cookie': 'x' }
  const leaking = await bindParcels(t, {
    verifyReplies: false,
    handlers: { ...parcelHandlers(), listParcels: async () => ({ status: 200, body: [], headers: secret }) },
  })
  const leaked = await leaking.inject(PARCELS)
  t.equal(leaked.statusCode, 200)
  t.notOk('x-secret' in leaked.headers || 'set-cookie' in leaked.headers, 'no other headers')
})

t.test('refuses to start', async (t) => {
  await t.rejects(
    bindParcels(t, { calls: { sendParcel: async () => ({ status: 202, body: {} }) } }),
    { message: /^(listParcels|recallParcel): there is no handler$/ },
    'without a handler',
  )
  await t.rejects(
    bindParcels(t, { schemes: ['other'] }),
    { message: 'sendParcel: the security scheme "accessKey" is not implemented' },
    'with a security scheme that is not implemented',
  )
})

const order = {
  method: 'POST',
  url: PARCELS,
  headers: { authorization: 'x', 'content-type': 'application/json' },
  payload: '{"to":"Ada"}',
} as const
const parcel = { number: 1, to: 'Ada', kind: 'letter', weight: null, note: null }
const headers = { 'X-Parcel-Number': 1 }

t.test('a reply that the contract does not declare never leaves the server', async (t) => {
  const sendWith = async (verifyReplies: boolean, sendParcel: () => Promise<Answer>) => {
    const app = await bindParcels(t, { verifyReplies, handlers: { ...parcelHandlers(), sendParcel } })
    return app.inject(order)
  }
  for (const [what, answer] of [
    ['a status that is not declared', { status: 200, body: parcel, headers }],
    ['an error returned instead of thrown', { status: 404, body: { error: 'no' }, headers }],
    ['no status at all', { status: 0, body: parcel, headers }],
  ] as const)
    for (const verifyReplies of [true, false]) {
      const response = await sendWith(verifyReplies, async () => answer)
      t.equal(response.statusCode, 500, what)
    }
  for (const [what, answer] of [
    ['a field is missing', { status: 202, body: { ...parcel, to: undefined }, headers }],
    ['a field is of a wrong type', { status: 202, body: { ...parcel, weight: '7' }, headers }],
    ['null where it is not allowed', { status: 202, body: { ...parcel, to: null }, headers }],
    ['a value outside the nullable enum', { status: 202, body: { ...parcel, kind: 'bag' }, headers }],
    ['a value that an excluded pattern matches', { status: 202, body: { ...parcel, note: 'now!' }, headers }],
    ['a field that is not declared', { status: 202, body: { ...parcel, secret: 1 }, headers }],
    ['a required header is missing', { status: 202, body: parcel }],
    ['a header of a wrong type', { status: 202, body: parcel, headers: { 'X-Parcel-Number': 'one' } }],
    ['a header that is not declared', { status: 202, body: parcel, headers: { ...headers, 'X-Secret': 1 } }],
  ] as const) {
    const response = await sendWith(true, async () => answer)
    t.equal(response.statusCode, 500, what)
    t.notMatch(response.body, /Ada|secret/i, 'reveals nothing')
  }
})

t.test('an undeclared error becomes an internal error', async (t) => {
  const throwing = async (error: Error) => {
    const listParcels = async () => {
      throw error
    }
    const app = await bindParcels(t, { handlers: { ...parcelHandlers(), listParcels } })
    return (await app.inject(PARCELS)).statusCode
  }
  t.equal(await throwing(new ServiceError('commit_unknown')), 404, 'declared')
  t.equal(await throwing(new ServiceError('read_only')), 500, '403 is not declared')
  t.equal(await throwing(new ServiceError('git_service_unknown')), 500, '400 is not declared')
  t.equal(await throwing(new ServiceError('malformed_request')), 400, 'any request can cause it')
  t.equal(await throwing(new ServiceError('too_slow')), 408)
})

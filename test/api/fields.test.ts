import t from 'tap'
import { schemas } from '../../generated/schemas.ts'
import { startServer } from '../helpers/server.ts'

/**
 * What the checks by the contract do not send: they draw values on either side of each limit and
 * break each rule of each field. Exact messages are here, and texts that are kept as sent.
 */
const DEEP = `${'['.repeat(5_000)}${']'.repeat(5_000)}`

interface Case {
  what: string
  /** Fields of the report besides `state`, or text for the whole body. */
  body: Record<string, unknown> | string
  /** Expected fields of the answer, or a pattern for the message. */
  expect: Record<string, unknown> | RegExp
}

const state = 'success'

const accepted: Case[] = [
  ...[' ci ', 'CI/Build', 'ci/build', 'e\u0301', '__proto__', 'null', '<b>', "'; --"].map((context) => ({
    what: `context: ${JSON.stringify(context)} as sent`,
    body: { state, context },
    expect: { context },
  })),
  ...[
    'http://e.org',
    'https://e.org/a?b=c#d',
    'HTTPS://E.ORG/',
    'hTTp://e.org',
    'https://e.org:8443/%20',
    'https://user:pass@e.org/',
    'https://[::1]/',
    'https://bücher.example/ü',
  ].map((target_url) => ({
    what: `target_url: ${target_url}`,
    body: { state, target_url },
    expect: { target_url },
  })),
  {
    what: 'unknown fields are ignored',
    body: '{"state":"success","id":7,"sha":"x","repositoryId":9,"reporterId":9,"__proto__":{"state":1},"constructor":{"prototype":1},"creator":null}',
    expect: { state },
  },
  {
    what: 'of a repeated key the last one counts',
    body: '{"state":"x","state":"error"}',
    expect: { state: 'error' },
  },
  {
    what: 'nesting in an unknown field',
    body: `{"state":"success","deep":${DEEP}}`,
    expect: { state },
  },
]

const refused: Case[] = [
  { what: 'a list', body: '[]', expect: /^the body must be a JSON object; got \[\]$/ },
  { what: 'no state', body: {}, expect: /^state is missing; it is required$/ },
  {
    what: 'another state',
    body: { state: 'Success' },
    expect: new RegExp(`^state must be one of ${schemas.State.enum.join(', ')}; got "Success"$`),
  },
  { what: 'no text', body: { state, context: 1 }, expect: /^context must be a string; got 1$/ },
  { what: 'null', body: { state, description: null }, expect: /^description must be a string; got null$/ },
  { what: 'NUL', body: { state, context: 'a\u0000b' }, expect: /^context must .*; got "a\\u0000b"$/ },
  {
    what: 'half a character',
    body: '{"state":"success","description":"\\udc00\\ud800"}',
    expect: /^description must .*; got "\\udc00\\ud800"$/,
  },
  { what: 'empty', body: { state, context: '' }, expect: /^context is 0 characters long; at least 1/ },
  {
    what: 'too many characters',
    body: { state, context: '\u{1F680}'.repeat(256) },
    expect: /^context is 256 characters long; at most 255 are allowed$/,
  },
  {
    what: 'too many bytes',
    body: { state, target_url: `https://e.org/${'ü'.repeat(1018)}` },
    expect: /^target_url is 2050 bytes long; at most 2048 are allowed$/,
  },
  ...[
    '',
    'https:\\\\e.org',
    'https://[::1',
    'java\nscript:alert(1)',
    'ht\ntps://e.org/',
    'https://e.org/\ud800',
  ].map((target_url) => ({
    what: JSON.stringify(target_url),
    body: { state, target_url },
    expect:
      /^target_url must be a URL that begins with http:\/\/ or https:\/\/ and contains no whitespace, control/,
  })),
]

t.test('fields of a report are stored as sent, or refused with 422,', async (t) => {
  const server = await startServer(t)
  const { commits } = await server.createRepository('acme/rocket')
  const [sha = ''] = commits
  const token = await server.createToken('acme')

  for (const { what, body, expect } of accepted) {
    const answer = await server.report('acme/rocket', sha, body, token)
    t.equal(answer.status, 201, what)
    t.match(answer.json, expect, what)
    const read = await server.read('acme/rocket', sha)
    const found = read.json.statuses?.find((status) => status.id === answer.json.id)
    t.same(found, answer.json, `${what}: read back as sent`)
  }
  const before = await server.read('acme/rocket', sha)
  for (const { what, body, expect } of refused) {
    const answer = await server.report('acme/rocket', sha, body, token)
    t.equal(answer.status, 422, what)
    t.match(answer.json.error, expect, what)
  }
  t.equal((await server.read('acme/rocket', sha)).body, before.body, 'rejected reports change nothing')
})

t.test('fields of a status have the forms of the contract', async (t) => {
  const server = await startServer(t)
  const { commits } = await server.createRepository('acme/rocket')
  const [sha = ''] = commits
  const token = await server.createToken('acme')
  const { json } = await server.report('acme/rocket', sha, { state: 'pending' }, token)
  const claim = { state: 'pending', context: 'claimed', run: '1', elapsed: 0, claim: 60 }
  const sentAt = Date.now()
  const { json: claimed } = await server.report('acme/rocket', sha, claim, token)
  const { claimed_until, ...others } = claimed
  t.same(Object.keys(claimed).sort(), Object.keys(schemas.Status.properties).sort())
  t.same(Object.keys(json).sort(), Object.keys(others).sort(), 'claimed_until: only of a claim')
  t.match(claimed_until, /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/, 'claimed_until: UTC with whole seconds')
  t.match(json.id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/, 'id: a UUIDv7')
  const createdAt = Number.parseInt((claimed.id ?? '').replace('-', '').slice(0, 12), 16)
  t.ok(createdAt >= sentAt && createdAt <= Date.now(), 'id: of the millisecond in which it was created')
  t.equal(json.sha, sha, 'sha: the full commit id')
  for (const field of ['created_at', 'updated_at'] as const) {
    t.match(json[field], /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$/, `${field}: UTC with whole seconds`)
    const age = Date.now() - Date.parse(json[field] ?? '')
    t.ok(age >= 0 && age < 10_000, `${field}: now`)
  }
})

for (const objectFormat of ['sha1', 'sha256'] as const) {
  t.test(`only full ids of commits in a ${objectFormat} repository are accepted`, async (t) => {
    const server = await startServer(t)
    const { commits } = await server.createRepository('acme/rocket', { objectFormat })
    const [sha = ''] = commits
    const other = objectFormat === 'sha1' ? 64 : 40
    const token = await server.createToken('acme')
    const ask = async (id: string, status: number, what: string) => {
      const report = await server.report('acme/rocket', id, { state: 'success' }, token)
      t.equal(report.status, status === 200 ? 201 : status, `report: ${what}`)
      const read = await server.read('acme/rocket', id)
      t.equal(read.status, status, `read: ${what}`)
      return report
    }

    await ask(sha, 200, 'the full id')
    t.equal((await ask(sha.toUpperCase(), 200, 'upper case')).json.sha, sha, 'returned in lower case')
    t.equal((await server.read('acme/rocket', sha)).json.statuses?.length, 1, 'one commit, one status')
    const short = await ask(sha.slice(0, 7), 422, 'abbreviated')
    t.match(
      short.json.error,
      /^sha must be a full commit id of 40 \(SHA-1\) or 64 \(SHA-256\) hex digits; got "/,
    )
    await ask(sha.slice(0, -1), 422, 'one digit short')
    await ask(`${sha}0`, 422, 'one digit long')
    const wrong = await ask(sha.repeat(2).slice(0, other), 422, "the other format's length")
    t.match(wrong.json.error, new RegExp(`^sha is ${other} hex digits long; .* have ${sha.length}$`))
    await ask('0'.repeat(sha.length), 404, 'no commit')
  })
}

import { readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { contractFile } from '../helpers/contract.ts'
import { allowsBreaking, breakingChanges } from './breaking.ts'
import { SAME_TEXTS } from './breaking-schemas.ts'
import { contractAjv } from './checker.ts'
import { entries, type Json, type JsonObject, list, object } from './json.ts'
import { readContract, readDocument } from './spec.ts'

const contract = await readContract(contractFile)
const unresolved = await readDocument(contractFile)
const released = resolve(import.meta.dirname, 'released')

t.test('the contract does not break clients of a released version', async (t) => {
  const files = readdirSync(released).filter((name) => name.endsWith('.yaml'))
  t.ok(files.length > 0)
  for (const file of files) {
    const before = await readContract(resolve(released, file))
    t.equal(file, `openapi-${before.version}.yaml`)
    const changes = breakingChanges(before, contract)
    if (!allowsBreaking(before, contract)) t.strictSame(changes, [], `since ${before.version}`)
  }
})

t.test('methods, paths and both token headers stay as required', async (t) => {
  const rows = contract.operations.map(({ id, method, path, security, replacesBy }) => ({
    [id]: [`${method} ${path}`, ...security, replacesBy],
  }))
  t.match(Object.assign({}, ...rows), {
    reportStatus: [
      'POST /api/v1/repos/{owner}/{repo}/statuses/{sha}',
      'bearerToken: repo',
      'accessToken: repo',
      'context',
    ],
    listStatuses: [
      'GET /api/v1/repos/{owner}/{repo}/commits/{sha}/statuses',
      '',
      'bearerToken: repo',
      'accessToken: repo',
      null,
    ],
  })
  for (const { id, security } of contract.operations)
    t.strictSame(
      security.filter((requirement) => requirement !== ''),
      ['bearerToken: repo', 'accessToken: repo'],
      `${id} accepts both token headers`,
    )
})

t.test('finds every kind of breaking change', async (t) => {
  const cases: [name: string, found: RegExp, change: (document: JsonObject) => void][] = [
    [
      'an operation is removed',
      /listStatuses was removed/,
      (d) => delete at(d, 'paths')[pathOf('listStatuses')],
    ],
    [
      'a status code is removed',
      /403 was removed/,
      (d) => delete at(operation(d, 'reportStatus'), 'responses')['403'],
    ],
    [
      'a status code is added',
      /418 was added/,
      (d) => set(at(operation(d, 'reportStatus'), 'responses'), '418', { description: 'x' }),
    ],
    [
      'a field becomes required',
      /context is now required/,
      (d) => set(schema(d, 'StatusReport'), 'required', ['state', 'context']),
    ],
    [
      'a required field is added',
      /team is now required/,
      (d) => {
        set(field(d, 'StatusReport'), 'team', { type: 'string' })
        set(schema(d, 'StatusReport'), 'required', ['state', 'team'])
      },
    ],
    [
      'a field of an answer is removed',
      /target_url was removed/,
      (d) => delete field(d, 'Status').target_url,
    ],
    [
      'a field of an answer becomes optional',
      /id is now optional/,
      (d) => set(schema(d, 'Status'), 'required', ['sha']),
    ],
    [
      'a limit of a request is lowered',
      /narrower maxLength: 200/,
      (d) => set(schema(d, 'Context'), 'maxLength', 200),
    ],
    [
      'a limit of an answer is raised',
      /wider maxLength: 255/,
      (d) => set(schema(d, 'Context'), 'maxLength', 500),
    ],
    [
      'the body limit is lowered',
      /to 100 bytes/,
      (d) => set(at(operation(d, 'reportStatus'), 'requestBody'), 'x-body-limit', 100),
    ],
    [
      'a value of a request is removed',
      /narrower enum: error/,
      (d) => set(schema(d, 'State'), 'enum', ['pending', 'success', 'failure']),
    ],
    [
      'a value of an answer is added',
      /wider enum: skipped/,
      (d) => list(combinedState(d).enum).push('skipped'),
    ],
    [
      'a field of an answer becomes nullable',
      /wider type: null/,
      (d) =>
        set(field(d, 'Status'), 'context', {
          oneOf: [{ $ref: '#/components/schemas/Context' }, { type: 'null' }],
        }),
    ],
    ['a default changes', /the default changed/, (d) => set(schema(d, 'Context'), 'default', 'ci')],
    [
      'a header is removed',
      /header vary was removed/,
      (d) => delete at(at(at(operation(d, 'listStatuses'), 'responses'), '200'), 'headers').Vary,
    ],
    [
      'anonymous access is removed',
      /listStatuses: no credential is no longer accepted/,
      (d) =>
        set(operation(d, 'listStatuses'), 'security', [{ bearerToken: ['repo'] }, { accessToken: ['repo'] }]),
    ],
    [
      'anonymous access is added',
      /reportStatus: no credential is newly accepted/,
      (d) => list(operation(d, 'reportStatus').security).push({}),
    ],
    [
      'a security scheme is removed from an operation',
      /reportStatus: accessToken: repo is no longer accepted/,
      (d) => set(operation(d, 'reportStatus'), 'security', [{ bearerToken: ['repo'] }]),
    ],
    [
      'a security scheme is removed from the whole contract',
      /the security scheme accessToken was removed/,
      withoutScheme,
    ],
    [
      'a security scheme is added',
      /listStatuses: basic: {2}is newly accepted/,
      (d) => {
        set(at(at(d, 'components'), 'securitySchemes'), 'basic', { type: 'http', scheme: 'basic' })
        list(operation(d, 'listStatuses').security).push({ basic: [] })
      },
    ],
    [
      'a security scheme is sent differently',
      /the security scheme accessToken changed: .*X-Token/,
      (d) => set(at(at(at(d, 'components'), 'securitySchemes'), 'accessToken'), 'name', 'X-Token'),
    ],
    [
      'a scope is added',
      /bearerToken: repo is no longer accepted/,
      (d) =>
        set(operation(d, 'reportStatus'), 'security', [
          { bearerToken: ['repo', 'write'] },
          { accessToken: ['repo'] },
        ]),
    ],
    [
      'a scope is removed',
      /bearerToken: {2}is newly accepted/,
      (d) => set(operation(d, 'reportStatus'), 'security', [{ bearerToken: [] }, { accessToken: ['repo'] }]),
    ],
    [
      'a request rejects unknown fields',
      /reportStatus: body: unknown fields are now rejected/,
      (d) => set(schema(d, 'StatusReport'), 'additionalProperties', false),
    ],
    ['the server moves', /the server \/ was removed/, (d) => set(d, 'servers', [{ url: '/v2' }])],
    [
      'repeating a request is no longer safe',
      /reportStatus: x-replaces-by changed to none/,
      (d) => delete operation(d, 'reportStatus')['x-replaces-by'],
    ],
    [
      'requests are replaced by another field',
      /reportStatus: x-replaces-by changed to state/,
      (d) => set(operation(d, 'reportStatus'), 'x-replaces-by', 'state'),
    ],
    [
      'a required parameter is added',
      /listStatuses: new required parameter branch/,
      (d) =>
        list(operation(d, 'listStatuses').parameters).push({
          name: 'branch',
          in: 'query',
          required: true,
          schema: { type: 'string' },
        }),
    ],
    [
      'a parameter becomes required',
      /parameter If-None-Match is now required/,
      (d) => set(at(at(at(d, 'components'), 'parameters'), 'IfNoneMatch'), 'required', true),
    ],
    [
      'a parameter is removed',
      /parameter If-None-Match was removed/,
      (d) => void list(operation(d, 'listStatuses').parameters).pop(),
    ],
    [
      'a pattern changes',
      /narrower pattern: "\^x\$"/,
      (d) => set(at(field(d, 'StatusReport'), 'description'), 'pattern', '^x$'),
    ],
    [
      'a pattern of an answer is removed',
      /sha: wider pattern/,
      (d) => delete at(field(d, 'Status'), 'sha').pattern,
    ],
    [
      'a pattern is excluded',
      /narrower not/,
      (d) => set(at(field(d, 'StatusReport'), 'description'), 'not', { pattern: '^x$' }),
    ],
    [
      'answers may contain lone surrogates',
      /wider x-well-formed/,
      (d) => delete schema(d, 'Context')['x-well-formed'],
    ],
  ]
  for (const [name, expected, change] of cases) {
    const document = structuredClone(unresolved)
    change(document)
    const changes = breakingChanges(contract, await readContract(document))
    t.match(changes.join('\n'), expected, name)
  }
})

t.test('finds nothing in compatible changes', async (t) => {
  const document = structuredClone(unresolved)
  set(field(document, 'StatusReport'), 'new_field', { type: 'string', maxLength: 50 })
  set(field(document, 'Status'), 'new_field', { oneOf: [{ type: 'string' }, { type: 'null' }] })
  set(at(field(document, 'StatusReport'), 'description'), 'maxLength', 4096)
  set(schema(document, 'Status'), 'additionalProperties', false)
  list(operation(document, 'listStatuses').parameters).push({
    name: 'branch',
    in: 'query',
    schema: { type: 'string' },
  })
  list(document.servers).push({ url: 'https://status.example.org' })
  t.strictSame(breakingChanges(contract, await readContract(document)), [])

  const former = structuredClone(unresolved)
  const success = at(at(operation(former, 'listStatuses'), 'responses'), '200')
  set(at(success, 'headers'), 'X-Cache', { required: false, schema: { type: 'string' } })
  t.strictSame(breakingChanges(await readContract(former), contract), [], 'an optional header is removed')
})

t.test('equivalent rules on text allow the same values', async (t) => {
  const points = [...Array(0x10000).keys(), 0x10000, 0x1f600, 0x10ffff].map((point) =>
    String.fromCodePoint(point),
  )
  const parts = [
    '',
    '.',
    '..',
    'a',
    'Z',
    '9',
    '-',
    '_',
    '/',
    ' ',
    'é',
    '\n',
    '\0',
    '\ud800',
    '.git',
    '.LOCK',
    '.gitx',
    'git',
  ]
  const names = parts.flatMap((a) => parts.flatMap((b) => parts.map((c) => a + b + c)))
  const urls = ['http', 'HTTPS', 'ftp', 'httpss', 'xhttp', ' http'].flatMap((scheme) =>
    ['://e.org/', ':/e.org', '://', ':e.org', '://e.org/\ud800', '://e.org/a b'].map((rest) => scheme + rest),
  )
  const times = [
    '2026-01-31T12:00:00',
    '2026-13-31T12:00:00',
    '2026-01-31 12:00:00',
    '20260131T120000',
  ].flatMap((time) => ['Z', 'z', '', '+00:00', '.5Z', 'Z\n'].map((zone) => time + zone))
  for (const [before, after] of SAME_TEXTS) {
    const [one, other] = [before, after].map((rules) => contractAjv().compile({ type: 'string', ...rules }))
    const samples = [...points, ...names, ...urls, ...times]
    const differ = samples.filter((value) => one?.(value) !== other?.(value))
    t.strictSame(differ.slice(0, 5), [], JSON.stringify(after))
    t.ok(
      samples.some((value) => one?.(value)) && samples.some((value) => !one?.(value)),
      'the samples contain allowed and rejected values',
    )
  }
})

t.test('a new major version may break clients', async (t) => {
  const document = structuredClone(unresolved)
  set(at(document, 'info'), 'version', `${Number.parseInt(contract.version, 10) + 1}.0.0`)
  t.ok(allowsBreaking(contract, await readContract(document)))
  t.notOk(allowsBreaking(contract, contract))
})

/** Removes the scheme and every requirement of it. */
function withoutScheme(document: JsonObject): void {
  delete at(at(document, 'components'), 'securitySchemes').accessToken
  for (const id of ['reportStatus', 'listStatuses']) {
    const found = operation(document, id)
    set(
      found,
      'security',
      list(found.security).filter((way) => !('accessToken' in object(way, 'security'))),
    )
  }
}

function at(holder: JsonObject, key: string): JsonObject {
  return object(holder[key], key)
}

function set(holder: JsonObject, key: string, value: Json): void {
  holder[key] = value
}

function combinedState(document: JsonObject): JsonObject {
  return object(list(at(field(document, 'CommitStatuses'), 'state').oneOf)[0], 'oneOf')
}

function schema(document: JsonObject, name: string): JsonObject {
  return at(at(at(document, 'components'), 'schemas'), name)
}

function field(document: JsonObject, name: string): JsonObject {
  return at(schema(document, name), 'properties')
}

function pathOf(id: string): string {
  return contract.operations.find((candidate) => candidate.id === id)?.path ?? ''
}

function operation(document: JsonObject, id: string): JsonObject {
  const [, found] = entries(at(document, 'paths')[pathOf(id)])[0] ?? []
  return object(found, id)
}

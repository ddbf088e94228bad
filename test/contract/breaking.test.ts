import { readdirSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { contractFile } from '../helpers/contract.ts'
import { git } from '../helpers/git.ts'
import { allowsBreaking, breakingChanges } from './breaking.ts'
import { SAME_TEXTS } from './breaking-schemas.ts'
import { changeDocument } from './change-document.ts'
import { contractAjv } from './checker.ts'
import type { Json } from './json.ts'
import { type Contract, readContract, readDocument } from './spec.ts'

const contract = await readContract(contractFile)
const unresolved = await readDocument(contractFile)
const released = resolve(import.meta.dirname, 'released')

/** Changes that break no client. Clients of versions without `run` never send it. */
const HARMLESS = ['reportStatus: 409 was added, which no client expects']

t.test('the contract does not break clients of a released version', async (t) => {
  const files = readdirSync(released).filter((name) => name.endsWith('.yaml'))
  t.ok(files.length > 0)
  for (const file of files) {
    const before = await readContract(resolve(released, file))
    t.equal(file, `openapi-${before.version}.yaml`)
    const changes = breakingChanges(before, contract).filter((change) => !HARMLESS.includes(change))
    if (!allowsBreaking(before, contract)) t.strictSame(changes, [], `since ${before.version}`)
  }
})

t.test('a released contract is never edited', async (t) => {
  const edits = ['log', '--format=%h %s', '--diff-filter=M', '--', released]
  t.equal(git('.', ...edits), '', 'in no commit')
  t.equal(git('.', 'diff', '--name-only', '--diff-filter=MD', 'HEAD', '--', released), '', 'nor since')
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
      'bearerToken: repo',
      'accessToken: repo',
      '',
      null,
    ],
  })
  for (const { id, security } of contract.operations) {
    // Importers of collections take the first one, and would read private repositories without a token.
    t.equal(security.slice(0, -1).indexOf(''), -1, `${id}: anonymous access comes last`)
    t.strictSame(
      security.filter((requirement) => requirement !== ''),
      ['bearerToken: repo', 'accessToken: repo'],
      `${id} accepts both token headers`,
    )
  }
})

const BRANCH = { name: 'branch', in: 'query', schema: { type: 'string' } }

/**
 * Changes: what is found of them, and where and to what they change the contract; see
 * `changeDocument`.
 */
const BREAKING: Readonly<Record<string, readonly [found: RegExp, place: string, value?: Json]>> = {
  'an operation is removed': [/listStatuses was removed/, `paths ${pathOf('listStatuses')}`],
  'a status code is removed': [/403 was removed/, 'reportStatus responses 403'],
  'a status code is added': [/418 was added/, 'reportStatus responses 418', { description: 'x' }],
  'a field becomes required': [/context is now required/, 'StatusReport required', ['state', 'context']],
  'a field requires another': [
    /description now requires target_url/,
    'StatusReport dependentRequired description',
    ['target_url'],
  ],
  'a field of an answer is removed': [/target_url was removed/, 'Status properties target_url'],
  'a field of an answer becomes optional': [/id is now optional/, 'Status required', ['sha']],
  'a limit of a request is lowered': [/narrower maxLength: 200/, 'Context maxLength', 200],
  'a limit of an answer is raised': [/wider maxLength: 255/, 'Context maxLength', 500],
  'the body limit is lowered': [/to 100 bytes/, 'reportStatus requestBody x-body-limit', 100],
  'a value of a request is removed': [
    /narrower enum: error/,
    'State enum',
    ['pending', 'success', 'failure'],
  ],
  'a value of an answer is added': [
    /wider enum: skipped/,
    'CommitStatuses properties state oneOf 0 enum 3',
    'skipped',
  ],
  'a field of an answer becomes nullable': [
    /wider type: null/,
    'Status properties context',
    { oneOf: [{ $ref: '#/components/schemas/Context' }, { type: 'null' }] },
  ],
  'a default changes': [/the default changed/, 'Context default', 'ci'],
  'a header is removed': [/header vary was removed/, 'listStatuses responses 200 headers Vary'],
  'anonymous access is removed': [
    /listStatuses: no credential is no longer accepted/,
    'listStatuses security 2',
  ],
  'anonymous access is added': [
    /reportStatus: no credential is newly accepted/,
    'reportStatus security 2',
    {},
  ],
  'a security scheme is removed from an operation': [
    /reportStatus: accessToken: repo is no longer accepted/,
    'reportStatus security 1',
  ],
  'a security scheme is removed from the whole contract': [
    /the security scheme accessToken was removed/,
    'components securitySchemes accessToken',
  ],
  'a security scheme is added': [
    /listStatuses: basic: repo is newly accepted/,
    'listStatuses security 3',
    { basic: [] },
  ],
  'a security scheme is sent differently': [
    /the security scheme accessToken changed: .*X-Token/,
    'components securitySchemes accessToken name',
    'X-Token',
  ],
  'a scope is added': [/bearerToken: repo is no longer accepted/, 'reportStatus x-scopes', ['repo', 'write']],
  'a scope is removed': [/bearerToken: {2}is newly accepted/, 'reportStatus x-scopes', []],
  'a request rejects unknown fields': [
    /reportStatus: body: unknown fields are now rejected/,
    'StatusReport additionalProperties',
    false,
  ],
  'the server moves': [/the server \/ was removed/, 'servers', [{ url: '/v2' }]],
  'repeating a request is no longer safe': [
    /reportStatus: x-replaces-by changed to none/,
    'reportStatus x-replaces-by',
  ],
  'requests are replaced by another field': [
    /reportStatus: x-replaces-by changed to state/,
    'reportStatus x-replaces-by',
    'state',
  ],
  'a required parameter is added': [
    /listStatuses: new required parameter branch/,
    'listStatuses parameters 4',
    { ...BRANCH, required: true },
  ],
  'a parameter becomes required': [
    /parameter If-None-Match is now required/,
    'components parameters IfNoneMatch required',
    true,
  ],
  'an operation loses its tag': [/listStatuses: tags changed to ""/, 'listStatuses tags'],
  'a parameter is no longer deprecated': [
    /getVerdict: wait is no longer deprecated/,
    'getVerdict parameters 5 deprecated',
  ],
  'a parameter is removed': [/parameter If-None-Match was removed/, 'listStatuses parameters 3'],
  'a pattern changes': [/narrower pattern: "\^x\$"/, 'StatusReport properties description pattern', '^x$'],
  'a pattern of an answer is removed': [/sha: wider pattern/, 'Status properties sha pattern'],
  'a pattern is excluded': [/narrower not/, 'StatusReport properties description not', { pattern: '^x$' }],
  'answers may contain lone surrogates': [/wider x-well-formed/, 'Context x-well-formed'],
}

t.test('finds every kind of breaking change', async (t) => {
  for (const [name, [expected, place, value]] of Object.entries(BREAKING)) {
    const changes = breakingChanges(contract, await changed([place, value]))
    t.match(changes.join('\n'), expected, name)
  }
  const team = await changed(
    ['StatusReport properties team', { type: 'string' }],
    ['StatusReport required', ['state', 'team']],
  )
  t.match(breakingChanges(contract, team).join('\n'), /team is now required/, 'a required field is added')
})

t.test('finds nothing in compatible changes', async (t) => {
  const now = await changed(
    ['StatusReport properties new_field', { type: 'string', maxLength: 50 }],
    ['Status properties new_field', { oneOf: [{ type: 'string' }, { type: 'null' }] }],
    ['StatusReport properties description maxLength', 4096],
    ['Status additionalProperties', false],
    ['listStatuses parameters 4', BRANCH],
    ['servers 1', { url: 'https://status.example.org' }],
  )
  t.strictSame(breakingChanges(contract, now), [])
  const header = { required: false, schema: { type: 'string' } }
  const former = await changed(['listStatuses responses 200 headers X-Cache', header])
  t.strictSame(breakingChanges(former, contract), [], 'an optional header is removed')
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
  for (const [before, after] of SAME_TEXTS) {
    const [one, other] = [before, after].map((rules) => contractAjv().compile({ type: 'string', ...rules }))
    const samples = [...points, ...names, ...urls]
    const differ = samples.filter((value) => one?.(value) !== other?.(value))
    t.strictSame(differ.slice(0, 5), [], JSON.stringify(after))
    t.ok(
      samples.some((value) => one?.(value)) && samples.some((value) => !one?.(value)),
      'the samples contain allowed and rejected values',
    )
  }
})

t.test('a new major version may break clients', async (t) => {
  const next = await changed(['info version', `${Number.parseInt(contract.version, 10) + 1}.0.0`])
  t.ok(allowsBreaking(contract, next))
  t.notOk(allowsBreaking(contract, contract))
})

/** Returns the contract after changes. */
function changed(...changes: [place: string, value?: Json | undefined][]): Promise<Contract> {
  const document = structuredClone(unresolved)
  for (const [place, value] of changes) changeDocument(document, place, value)
  return readContract(document)
}

function pathOf(id: string): string {
  return contract.operations.find((candidate) => candidate.id === id)?.path ?? ''
}

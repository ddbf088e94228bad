import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t, { type Test } from 'tap'
import { answers, lockOut } from '../contract/answers.ts'
import { Client } from '../contract/client.ts'
import { Coverage } from '../contract/coverage.ts'
import { createFixture } from '../contract/fixture.ts'
import { privacy } from '../contract/privacy.ts'
import { queries } from '../contract/queries.ts'
import { parameters, refusals } from '../contract/refusals.ts'
import { readContract } from '../contract/spec.ts'
import { storeAdministration } from '../contract/store-administration.ts'
import { git } from '../helpers/git.ts'
import { compile, copyWith, type Edits, serve } from './contract-copy.ts'

const root = resolve(import.meta.dirname, '../..')
const readme = readFileSync(join(root, 'src/README.md'), 'utf8')

/** Compares the files that a change requires editing with those that the README names for it. */
function expectEdits(t: Test, change: string, edits: Edits): void {
  const [, row = ''] = new RegExp(`^\\| ${change} \\| (.*) \\|$`, 'm').exec(readme) ?? []
  t.strictSame(
    Object.keys(edits),
    [...row.matchAll(/`([^`]+)`/g)].map(([, file]) => file),
    `README: ${change}`,
  )
}

/** An operation with a paged list: without a commit, with query parameters and headers of its own. */
const OPERATION: Edits = {
  'openapi.yaml': [
    [
      '\ncomponents:\n',
      `
  /api/v1/repos/{owner}/{repo}/states:
    get:
      operationId: listStates
      summary: List the states that reports can have
      x-access: read
      security:
        - {}
        - bearerToken: [repo]
        - accessToken: [repo]
      parameters:
        - $ref: '#/components/parameters/Owner'
        - $ref: '#/components/parameters/Repo'
        - $ref: '#/components/parameters/IfNoneMatch'
        - { name: limit, in: query, schema: { type: integer, minimum: 1, maximum: 3, default: 2 } }
        - { name: at, in: query, required: true, schema: { type: string, format: date-time } }
        - { name: note, in: query, schema: { type: string, x-max-bytes: 40 } }
        - { name: place, in: query, schema: { type: string, maxLength: 11, pattern: '^[0-9]{1,8}_[a-z]{2}$', x-rule: must be a place } }
        - { name: after, in: query, schema: { $ref: '#/components/schemas/State' } }
        - { name: hide, in: query, schema: { type: array, maxItems: 2, items: { $ref: '#/components/schemas/State' } } }
      responses:
        '200':
          description: One page.
          headers: &headers
            ETag: { $ref: '#/components/headers/ETag' }
            X-Request-Id: { $ref: '#/components/headers/X-Request-Id' }
            Cache-Control: { $ref: '#/components/headers/Cache-Control' }
            Vary: { $ref: '#/components/headers/Vary' }
            X-Total-Count: { required: true, schema: { type: string, pattern: '^[0-9]+$' } }
            Link: { schema: { type: string } }
          content:
            application/json:
              schema:
                type: object
                required: [states, next]
                properties:
                  states: { type: array, items: { $ref: '#/components/schemas/State' } }
                  next: { oneOf: [{ $ref: '#/components/schemas/State' }, { type: 'null' }] }
        '304': { description: As before., headers: *headers }
        '401': { $ref: '#/components/responses/Unauthorized' }
        '403': { $ref: '#/components/responses/Forbidden' }
        '404': { $ref: '#/components/responses/NotFound' }
        '422': { $ref: '#/components/responses/UnprocessableContent' }
        '429': { $ref: '#/components/responses/TooManyRequests' }
        '503': { $ref: '#/components/responses/ServiceUnavailable' }
components:
`,
    ],
  ],
  'src/api/handlers.ts': [
    [
      'import { combinedState,',
      "import { schemas } from '../../generated/schemas.ts'\nimport { combinedState,",
    ],
    [
      '    async listStatuses(',
      `    async listStates({ query: { limit, after, hide = [] } }) {
      const shown = schemas.State.enum.filter((state) => !hide.includes(state))
      const start = after === undefined ? 0 : shown.indexOf(after) + 1
      const states = shown.slice(start, start + limit)
      const next = start + limit < shown.length ? (states.at(-1) ?? null) : null
      const headers = { 'X-Total-Count': String(shown.length), ...(next && { Link: \`<?after=\${next}>; rel="next"\` }) }
      return { status: 200, body: { states, next }, headers }
    },

    async listStatuses(`,
    ],
  ],
}

const LIMIT: Edits = {
  'openapi.yaml': [
    ['maxLength: 255', 'maxLength: 256'],
    [/(\n {4}ContextPattern:[\s\S]*?maxLength:) 255/, '$1 257'],
    [/(\n {4}Branch:[\s\S]*?maxLength:) 255/, '$1 258'],
  ],
}
const FIELD: Edits = {
  'openapi.yaml': [
    [/(\n {4}StatusReport:\n[\s\S]*?properties:\n)/, '$1        job:\n          type: integer\n'],
  ],
}
const STORED_FIELD: Edits = {
  'openapi.yaml': [
    [
      /(\n {4}StatusReport:\n[\s\S]*?properties:\n)/,
      '$1        runner: { type: string, maxLength: 40, pattern: "^[a-z-]*$", x-rule: must be letters }\n',
    ],
    ['required: [id, sha, context,', 'required: [id, runner, sha, context,'],
    [
      /(\n {4}Status:\n[\s\S]*?properties:\n)/,
      '$1        runner: { oneOf: [{ type: string }, { type: "null" }] }\n',
    ],
  ],
  'src/store/statuses/columns.ts': [
    ['  created_at: {', "  runner: { ...reported, onReplace: 'replaced' },\n  created_at: {"],
  ],
  'src/store/migrations.ts': [
    [
      "  '009-pending-times'",
      `  '010-runner': () => ['alter table statuses add column runner text'],\n  '009-pending-times'`,
    ],
  ],
}
const STATE: Edits = {
  'openapi.yaml': [
    ['[pending, success, failure, error', '[pending, success, failure, error, waived, aborted'],
    ['error: failure }', 'error: failure, waived: success, aborted: failure }'],
  ],
  'clients/shell/commit-status': [
    ['success | failure | error)', 'success | failure | error | waived | aborted)'],
  ],
}

/** Merges edits, because compiling is slow. */
function together(...all: Edits[]): Edits {
  const files = new Set(all.flatMap((edits) => Object.keys(edits)))
  return Object.fromEntries([...files].map((file) => [file, all.flatMap((edits) => edits[file] ?? [])]))
}

t.test('a change of the contract requires the edits that the README names, and is served', async (t) => {
  expectEdits(t, 'a limit', LIMIT)
  expectEdits(t, 'a field of a request', FIELD)
  expectEdits(t, 'a field that is stored', STORED_FIELD)
  expectEdits(t, 'a state', STATE)
  expectEdits(t, 'an operation', OPERATION)
  const copy = await copyWith(t, together(LIMIT, FIELD, STORED_FIELD, STATE, OPERATION))
  t.strictSame(compile(copy), [], 'everything compiles')

  const server = await serve(t, copy)
  const { open, writer } = await createFixture(storeAdministration(server.store), 2)
  const [sha = ''] = open.commits
  const { createClient } = await import(join(copy, 'clients/typescript/src/index.ts'))
  const client = createClient({ baseUrl: server.url, token: writer.secret })
  const place = { owner: open.owner, repo: open.name }
  const report = async (body: object) => {
    const answer = await client.reportStatus({ ...place, sha, body })
    return [answer.status, answer.body]
  }

  await t.test('a limit and a field', async (t) => {
    t.match(await report({ state: 'success', context: 'x'.repeat(256), job: 7 }), [
      201,
      { context: 'x'.repeat(256) },
    ])
    t.same(await report({ state: 'success', context: 'x'.repeat(257) }), [
      422,
      { error: 'context is 257 characters long; at most 256 are allowed' },
    ])
    t.same(await report({ state: 'success', job: '7' }), [422, { error: 'job must be an integer; got "7"' }])
    const docs: unknown = await (await fetch(`${server.url}/openapi.json`)).json()
    t.match(docs, {
      components: { schemas: { Context: { maxLength: 256 }, StatusReport: { properties: { job: {} } } } },
    })
    const { operations } = await import(join(copy, 'clients/typescript/src/generated/operations.ts'))
    t.equal(operations.reportStatus.maxLength.context, 256, 'the client')

    const [repository] = await server.store.repositories.list()
    const setRule = (branchPattern: string, required: string) =>
      server.store.rules.set(repository, { branchPattern, required: [required], bypass: [] })
    await setRule('b'.repeat(258), 'c'.repeat(257))
    await t.rejects(setRule('b'.repeat(259), 'c'), { message: /at most 258/ })
    await t.rejects(setRule('b', 'c'.repeat(258)), { message: /at most 257/ })
  })

  await t.test('a state', async (t) => {
    t.match(await report({ state: 'waived', context: 'x'.repeat(256) }), [201, { state: 'waived' }])
    const { body } = await client.listStatuses({ ...place, sha })
    t.match(body, { state: 'success', statuses: [{ state: 'waived' }] })
    const { decideWait } = await import(join(copy, 'clients/typescript/src/decide-wait.ts'))
    const rules = { require: ['*'], only: false, settle: 0, stalled: undefined }
    t.match(
      decideWait(body.statuses, rules, Date.now(), true),
      { outcome: 'success' },
      'a wait counts it too',
    )
    const metrics = await fetch(`${server.url}/metrics`, { headers: { authorization: 'Bearer metrics' } })
    t.match(await metrics.text(), 'commit_status_reports_total{state="waived"} 1')

    t.match(await report({ state: 'aborted', context: 'ci/mac' }), [201, { state: 'aborted' }])
    t.match(await client.listStatuses({ ...place, sha }), { body: { state: 'failure' } })
    const [pages, commit] = [
      `${server.url}/${open.owner}/${open.name}`,
      `${open.owner}/${open.name}/commits/${sha}`,
    ]
    const read = async (url: string, headers = {}) => (await fetch(url, { headers })).text()
    const page = await read(`${server.url}/${commit}`)
    t.match(page, '1 failed, 1 passed')
    t.match(page, /id="failed".*badge failure">aborted<.*ci\/mac.*id="passed".*badge success">waived</s)
    const filtered = await read(`${server.url}/${commit}?state=aborted`)
    t.match(filtered, /<option value="aborted" selected>/)
    t.match(filtered, 'maxlength="512"', 'the filter takes a whole context')
    t.match(filtered, 'ci/mac')
    t.notMatch(filtered, 'id="passed"')
    const live = (etag = '') => fetch(`${pages}/live/${sha}`, { headers: { 'if-none-match': etag } })
    const etag = (await live()).headers.get('etag') ?? ''
    t.equal((await live(etag)).status, 304)
    await report({ state: 'aborted', context: 'ci/mac', description: 'again' })
    t.equal((await live(etag)).status, 200, 'the page of a commit shows its new reports')
    git(open.path ?? '', 'update-ref', 'refs/heads/main', sha)
    t.match(await read(pages), /Failed: .*ci\/mac.*1 of 2 passed/s)
    const checks = await read(`${pages}/checks`)
    t.match(checks, /failing<\/span> <strong>.*ci\/mac/s)
    t.match(checks, /<td class="failure aborted">[^\n]*aborted<.*<td class="success waived">[^\n]*waived</s)
  })

  await t.test('a paged list', async (t) => {
    const at = '2026-01-31T12:00:00Z'
    const page = async (query: object) => {
      const { status, body, headers } = await client.listStates({ ...place, at, ...query })
      return [status, body, headers.get('x-total-count'), headers.get('link')]
    }
    const first = { states: ['pending', 'success'], next: 'success' }
    t.same(await page({}), [200, first, '6', '<?after=success>; rel="next"'])
    const last = { states: ['error', 'waived', 'aborted'], next: null }
    t.same(await page({ after: 'failure', limit: 3 }), [200, last, '6', null])
    const rest = { states: ['failure', 'waived', 'aborted'], next: null }
    t.same(await page({ hide: ['pending', 'error'], after: 'success', limit: 3 }), [200, rest, '4', null])
    t.same((await page({ limit: 4 })).slice(0, 2), [422, { error: 'limit must be <= 3; got 4' }])
    const { headers } = await client.listStates({ ...place, at })
    t.equal((await client.listStates({ ...place, at }, { ifNoneMatch: headers.get('etag') })).status, 304)
  })

  await t.test('the server satisfies the changed contract', async (t) => {
    const contract = await readContract(join(copy, 'openapi.yaml'))
    const coverage = new Coverage(contract)
    for (const [checks, { url, store }, failuresLeft] of [
      [[answers, privacy, refusals, parameters, queries], server, 900],
      [[lockOut], await serve(t, copy, { limit: 3, window: 300 }), 0],
    ] as const) {
      const tester = new Client(contract, url, coverage)
      t.teardown(() => tester.close())
      const fixture = await createFixture(storeAdministration(store), 8)
      for (const check of checks)
        await t.test(check.name, () => check.run({ client: tester, fixture, seed: 1, runs: 3, failuresLeft }))
    }
    const missing = coverage.missing().filter((gap) => !gap.endsWith(' 503'))
    t.strictSame(missing, [], 'every declared response occurs, also those of the new operation')
  })

  await t.test('a stored field', async (t) => {
    const read = async () =>
      (await client.listStatuses({ ...place, sha })).body.statuses.filter(
        ({ context }: { context: string }) => context === 'stored',
      )
    t.match(await report({ state: 'success', context: 'stored', runner: 'arm' }), [201, { runner: 'arm' }])
    t.match(await read(), [{ runner: 'arm' }])
    t.match(await report({ state: 'success', context: 'stored' }), [201, { runner: null }])
    t.match(await read(), [{ runner: null }], 'a report without it replaces it')
  })
})

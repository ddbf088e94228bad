import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t, { type Test } from 'tap'
import { schemas } from '../../generated/schemas.ts'
import { answers, lockOut } from '../contract/answers.ts'
import { Client } from '../contract/client.ts'
import { Coverage } from '../contract/coverage.ts'
import { createFixture } from '../contract/fixture.ts'
import { privacy } from '../contract/privacy.ts'
import { queries } from '../contract/queries.ts'
import { parameters, refusals } from '../contract/refusals.ts'
import { readContract } from '../contract/spec.ts'
import { storeAdministration } from '../contract/store-administration.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { git } from '../helpers/git.ts'
import { copyWith, type Edits, serve } from './contract-copy.ts'
import {
  allEdits,
  BRANCH,
  CONTEXT,
  FAIL,
  FIELD,
  LIMIT,
  OPERATION,
  PASS,
  PATTERN,
  STATE,
  STORED_FIELD,
} from './contract-edits.ts'

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

t.test('a change of the contract requires the edits that the README names, and is served', async (t) => {
  expectEdits(t, 'a limit', LIMIT)
  expectEdits(t, 'a field of a request', FIELD)
  expectEdits(t, 'a field that is stored', STORED_FIELD)
  expectEdits(t, 'a state', STATE)
  expectEdits(t, 'an operation', OPERATION)
  const copy = await copyWith(t, allEdits())
  const server = await serve(t, copy)
  const { open, writer } = await createFixture(storeAdministration(server.store), 2)
  const [sha = ''] = open.commits
  const { createClient } = await import(join(copy, 'clients/typescript/src/index.ts'))
  const client = createClient({ baseUrl: server.url, token: writer.secret })
  const place = { owner: open.owner, repo: open.name }
  const longest = 'x'.repeat(CONTEXT)
  const report = async (body: object) => {
    const answer = await client.reportStatus({ ...place, sha, body })
    return [answer.status, answer.body]
  }

  await t.test('a limit and a field', async (t) => {
    t.match(await report({ state: 'success', context: longest, rehearsed_field: 7 }), [
      201,
      { context: longest },
    ])
    t.same(await report({ state: 'success', context: `${longest}x` }), [
      422,
      { error: `context is ${CONTEXT + 1} characters long; at most ${CONTEXT} are allowed` },
    ])
    t.same(await report({ state: 'success', rehearsed_field: '7' }), [
      422,
      { error: 'rehearsed_field must be an integer; got "7"' },
    ])
    const docs: unknown = await (await fetch(`${server.url}/openapi.json`)).json()
    t.match(docs, {
      components: {
        schemas: { Context: { maxLength: CONTEXT }, StatusReport: { properties: { rehearsed_field: {} } } },
      },
    })
    const { operations } = await import(join(copy, 'clients/typescript/src/generated/operations.ts'))
    t.equal(operations.reportStatus.maxLength.context, CONTEXT, 'the client')

    const [repository] = await server.store.repositories.list()
    const setRule = (refPattern: string, required: string) =>
      asAdministrator(server.store).rules.set(repository, { refPattern, required: [required], bypass: [] })
    await setRule('b'.repeat(BRANCH), 'c'.repeat(PATTERN))
    await t.rejects(setRule('b'.repeat(BRANCH + 1), 'c'), { message: `at most ${BRANCH}` })
    await t.rejects(setRule('b', 'c'.repeat(PATTERN + 1)), { message: `at most ${PATTERN}` })
  })

  await t.test('a state', async (t) => {
    t.match(await report({ state: PASS, context: longest }), [201, { state: PASS }])
    const { body } = await client.listStatuses({ ...place, sha })
    t.match(body, { state: 'success', statuses: [{ state: PASS }] })
    const { decideWait } = await import(join(copy, 'clients/typescript/src/decide-wait.ts'))
    const rules = { require: ['*'], only: false, settle: 0, stalled: undefined }
    t.match(
      decideWait(body.statuses, rules, Date.now(), true),
      { outcome: 'success' },
      'a wait counts it too',
    )
    const metrics = await fetch(`${server.url}/metrics`, { headers: { authorization: 'Bearer metrics' } })
    t.match(await metrics.text(), `commit_status_reports_total{state="${PASS}"} 1`)

    t.match(await report({ state: FAIL, context: 'ci/mac' }), [201, { state: FAIL }])
    t.match(await client.listStatuses({ ...place, sha }), { body: { state: 'failure' } })
    const [pages, commit] = [
      `${server.url}/${open.owner}/${open.name}`,
      `${open.owner}/${open.name}/commits/${sha}`,
    ]
    const read = async (url: string, headers = {}) => (await fetch(url, { headers })).text()
    const page = await read(`${server.url}/${commit}`)
    t.match(page, '1 failed, 1 passed')
    const inSections = `id="failed".*icon failure ${FAIL}">${FAIL}<.*ci/mac.*id="passed".*icon success ${PASS}">${PASS}<`
    t.match(page, new RegExp(inSections, 's'))
    const filtered = await read(`${server.url}/${commit}?state=${FAIL}`)
    t.match(filtered, `<option value="${FAIL}" selected>`)
    t.match(filtered, `maxlength="${2 * CONTEXT}"`, 'the filter takes a whole context')
    t.match(filtered, 'ci/mac')
    t.notMatch(filtered, 'id="passed"')
    const live = (etag = '') =>
      fetch(`${server.url}/${commit}`, { headers: { 'x-live': '1', 'if-none-match': etag } })
    const etag = (await live()).headers.get('etag') ?? ''
    t.equal((await live(etag)).status, 304)
    await report({ state: FAIL, context: 'ci/mac', description: 'again' })
    t.equal((await live(etag)).status, 200, 'the page of a commit shows its new reports')
    git(open.path ?? '', 'update-ref', 'refs/heads/main', sha)
    t.match(await read(pages), /1 failed<\/span>: .*ci\/mac/)
    const checks = await read(`${pages}/checks`)
    t.match(checks, new RegExp(`id="failing"[^]*>${FAIL}<[^]*<bdi>ci/mac<`))
    const cell = (combined: string, state: string) => `<td class="${combined} ${state}">[^\\n]*${state}<`
    t.match(checks, new RegExp(`${cell('failure', FAIL)}.*${cell('success', PASS)}`, 's'))
  })

  await t.test('a paged list', async (t) => {
    const at = '2026-01-31T12:00:00Z'
    const page = async (query: object) => {
      const { status, body, headers } = await client.listStates({ ...place, at, ...query })
      return [status, body, headers.get('x-total-count'), headers.get('link')]
    }
    const states = [...schemas.State.enum, PASS, FAIL]
    const first = { states: ['pending', 'success'], next: 'success' }
    const link = `<?at=${at}&limit=2&after=success>; rel="next"`
    t.same(await page({}), [200, first, `${states.length}`, link])
    const hidden = await page({ hide: ['pending', 'error'], limit: 1, note: 'a b&c' })
    t.equal(
      hidden.at(-1),
      `<?at=${at}&hide=pending&hide=error&limit=1&note=a%20b%26c&after=success>; rel="next"`,
      'a link repeats every parameter',
    )
    const last = { states: states.slice(-3), next: null }
    t.same(await page({ after: states.at(-4), limit: 3 }), [200, last, `${states.length}`, null])
    const shown = states.filter((state) => !['pending', 'error'].includes(state))
    const rest = { states: shown.slice(-3), next: null }
    t.same(await page({ hide: ['pending', 'error'], after: shown.at(-4), limit: 3 }), [
      200,
      rest,
      `${shown.length}`,
      null,
    ])
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
    t.match(
      await report({ state: 'success', context: 'stored', rehearsed_column: 'arm', rehearsed_number: 2 }),
      [201, { rehearsed_column: 'arm', rehearsed_number: 2 }],
    )
    t.match(await read(), [{ rehearsed_column: 'arm', rehearsed_number: 2 }])
    t.match(await report({ state: 'success', context: 'stored' }), [
      201,
      { rehearsed_column: null, rehearsed_number: null },
    ])
    t.match(
      await read(),
      [{ rehearsed_column: null, rehearsed_number: null }],
      'a report without it replaces it',
    )
  })
})

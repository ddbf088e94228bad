import { execFile } from 'node:child_process'
import { resolve } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { createPruning } from '../../src/maintenance/prune.ts'
import { NO_STATUSES } from '../../src/store/statuses/status-summaries.ts'
import type { Report } from '../../src/store/statuses/statuses.ts'
import { openStore, type Store, type StoreOptions } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore, type TestDatabase } from '../helpers/databases.ts'
import type { Input } from './fixtures/report.ts'

const SHA = 'a'.repeat(40)
/** Commits that are filled up to the limit of contexts. */
const LIMIT_ROUNDS = Number(process.env.LIMIT_ROUNDS ?? 10)
/** A report without its repository and context. */
const ERROR = { sha: SHA, state: 'error', description: null, target_url: null } as const

async function openRepository(t: Test, database: TestDatabase, limits?: Partial<StoreOptions>) {
  const { store, options } = await openTestStore(t, database, limits)
  const { id } = await createRepository(store)
  const report = (context: string, rest: Partial<Report> = {}) =>
    store.statuses.report({
      repositoryId: id,
      sha: SHA,
      context,
      state: 'success',
      description: null,
      target_url: null,
      ...rest,
    })
  return { store, options, id, report }
}

function createRepository(store: Store, name = 'repo') {
  return asAdministrator(store).repositories.create({
    owner: 'acme',
    name,
    visibility: 'public',
    objectFormat: 'sha1',
  })
}

/**
 * Reports one status for each context in another process.
 *
 * @returns the contexts that were stored
 */
async function reportInProcess(input: Input): Promise<string[]> {
  const script = resolve(import.meta.dirname, 'fixtures/report.ts')
  const running = promisify(execFile)(process.execPath, [script])
  running.child.stdin?.end(JSON.stringify(input))
  return JSON.parse((await running).stdout)
}

for (const database of databases) {
  const test = (name: string, work: (t: Test) => Promise<void>) => t.test(`${database.name}: ${name}`, work)

  test('stores no report after the time until which it may be stored', async (t) => {
    const { store, id, report } = await openRepository(t, database)
    const now = performance.now()
    const times = { late: now - 1, soon: now + 30_000, new: now - 1_000 }
    const sent = Object.entries(times).map(([context, storedBy]) => report(context, { storedBy }))
    const results = await Promise.allSettled([...sent, report('any'), report('late', { state: 'pending' })])
    t.same(
      results.map((result) => (result.status === 'rejected' ? result.reason.name : result.value?.state)),
      ['WrittenTooLate', 'success', 'WrittenTooLate', 'success', 'pending'],
    )
    const stored = await store.statuses.list(id, SHA)
    t.same(
      stored.map(({ context, state }) => `${context} ${state}`),
      ['any success', 'late pending', 'soon success'],
    )
  })

  test('stores a report exactly as it was sent', async (t) => {
    const { store, id, report } = await openRepository(t, database)
    const before = Math.floor(Date.now() / 1000)
    const text =
      '\u{1F469}\u200D\u{1F4BB} e\u0301 \u00E9 \uFFFF \u{10FFFF} \u0001\u007F\u0085 %\'"\\_; -- \r\n\t'
    const row = await report(text, {
      state: 'error',
      description: '',
      target_url: `https://example.org/${text}`,
    })
    t.match(row, {
      id: /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
      sha: SHA,
      context: text,
      state: 'error',
      description: '',
      target_url: `https://example.org/${text}`,
    })
    t.ok(row && row.created_at >= before && row.created_at <= Date.now() / 1000)
    t.equal(row?.updated_at, row?.created_at)
    t.same(await store.statuses.list(id, SHA), [row])
    t.equal((await report('none'))?.description, null)
  })

  test('compares and orders contexts by code points', async (t) => {
    const { store, id, report } = await openRepository(t, database)
    // UTF-16 order puts U+FF41 after U+1D41A; collations of languages ignore case, accents and
    // punctuation.
    const ordered = [
      ...[' ', '-', 'A', 'B', 'Z', '_', 'a', 'a ', 'a-b', 'a.b', 'aB', 'ab', 'b', 'e\u0301', 'z'],
      ...['\u00C4', '\u00E4', '\u00E9', '\u0130', '\u0131', '\uFF41', '\u{1D41A}', '\u{10FFFF}'],
    ]
    await Promise.all(ordered.toReversed().map((context) => report(context)))
    const contexts = (await store.statuses.list(id, SHA)).map(({ context }) => context)
    t.same(contexts, ordered)
  })

  test('summarizes several commits: counts, and the first three contexts that failed', async (t) => {
    const { store, options, id, report } = await openRepository(t, database)
    const other = await createRepository(store, 'other')
    const [silent, few] = ['b'.repeat(40), 'c'.repeat(40)]
    // In another order than the contexts.
    const linkOf = (context: string) => `https://ci.example.org/${context.codePointAt(0)}`
    for (const context of ['z', 'Z', 'a', '\u00E4', 'b'])
      await report(context, { state: 'failure', target_url: linkOf(context) })
    await report('c', { state: 'error' })
    await report('d', { state: 'pending' })
    await report('e')
    await report('only', { sha: few, state: 'error' })
    await report('elsewhere', { repositoryId: other.id, state: 'failure' })
    const none = NO_STATUSES.counts
    const commits = [
      { repositoryId: id, sha: few },
      { repositoryId: id, sha: silent },
      { repositoryId: id, sha: SHA },
      { repositoryId: other.id, sha: SHA },
      { repositoryId: other.id, sha: few },
      { repositoryId: id, sha: SHA },
    ]
    const all = {
      counts: { ...none, pending: 1, success: 1, failure: 5, error: 1 },
      failed: ['Z', 'a', 'b'].map((context) => ({ context, targetUrl: linkOf(context) })),
    }
    const summaries = [
      { counts: { ...none, error: 1 }, failed: [{ context: 'only', targetUrl: null }] },
      { counts: none, failed: [] },
      all,
      { counts: { ...none, failure: 1 }, failed: [{ context: 'elsewhere', targetUrl: null }] },
      { counts: none, failed: [] },
      all,
    ]
    const listed = await store.summaries.list(commits)
    const times = listed.flatMap(({ failed }) => failed.map(({ failedAt }) => failedAt))
    t.ok(times.every((time) => Math.abs(time - Date.now() / 1000) < 60))
    const withoutTimes = listed.map(({ counts, failed }) => ({
      counts,
      failed: failed.map(({ context, targetUrl }) => ({ context, targetUrl })),
    }))
    t.same(withoutTimes, summaries)
    t.same(await store.summaries.list([]), [])
    if (options.databaseUrl) {
      const url = new URL(options.databaseUrl)
      url.searchParams.set('options', '-c enable_indexscan=off -c enable_bitmapscan=off')
      const scanning = await openStore({ ...options, databaseUrl: url.href })
      t.same(await scanning.summaries.list(commits), listed, 'whatever order the planner reads rows in')
      await scanning.close()
    }
    const states = await store.summaries.listStates({ repositoryId: id, sha: SHA })
    t.equal(
      states.map(({ context, state }) => `${context} ${state}`).join(),
      'Z failure,a failure,b failure,c error,d pending,e success,z failure,\u00E4 failure',
    )
    const histories = await store.matrix.listHistories(id, [few, SHA, silent], ['only', 'd', 'none'])
    t.same(
      [...histories].map(([context, cells]) => [context, Array.from(cells, (cell) => cell?.state)]).sort(),
      [
        ['d', [undefined, 'pending', undefined]],
        ['only', ['error', undefined, undefined]],
      ],
    )
    await report('only', { sha: few })
    const [summary] = await store.summaries.list(commits.slice(0, 1))
    t.same(summary, { counts: { ...none, success: 1 }, failed: [] }, 'a report takes effect at once')
    t.equal(await store.summaries.findState(id, few, 'only'), 'success')
    for (const context of ['none', '', 'a\0b'])
      t.equal(await store.summaries.findState(id, few, context), undefined)
  })

  test('keeps the time of the last pending until the run has ended', async (t) => {
    const { store, id, report } = await openRepository(t, database)
    let now = 1_700_000_000_000
    t.capture(Date, 'now', () => now)
    const times: (number | null | undefined)[] = []
    for (const state of [
      'success',
      'pending',
      'pending',
      'failure',
      'success',
      'pending',
      'error',
    ] as const) {
      await report('ci', { state })
      const [row] = await store.statuses.listWithReporters({ repositoryId: id, sha: SHA })
      times.push(row?.pending_at && row.pending_at - 1_700_000_000)
      now += 10_000
    }
    t.same(times, [null, 10, 20, 20, null, 50, 50])
    const [row] = await store.statuses.list(id, SHA)
    t.notOk(row && 'pending_at' in row, 'it is not for the API')
  })

  test('a later report replaces the earlier one except for id and created_at', async (t) => {
    const { store, id, report } = await openRepository(t, database)
    let now = 1_700_000_000_999
    t.capture(Date, 'now', () => now)
    const first = await report('ci', { description: 'one', target_url: 'https://example.org/1' })
    t.equal(first?.created_at, 1_700_000_000, 'rounded down to the second')
    now = 1_700_000_060_000
    const second = await report('ci', { state: 'failure' })
    t.same(second, {
      ...first,
      state: 'failure',
      description: null,
      target_url: null,
      updated_at: 1_700_000_060,
    })
    now = 1_700_000_070_000
    const third = await report('ci', { state: 'failure' })
    t.same(third, { ...second, updated_at: 1_700_000_070 }, 'an identical report counts as a report')
    now = 1_600_000_000_000
    t.same(await report('ci', { state: 'pending' }), { ...third, state: 'pending' }, 'a clock that goes back')
    t.equal((await store.statuses.list(id, SHA)).length, 1)
  })

  test('64 concurrent reports of one context leave one status', async (t) => {
    const { store, id, report } = await openRepository(t, database)
    const rows = await Promise.all(
      Array.from({ length: 64 }, (_, index) => report('ci', { description: String(index) })),
    )
    t.equal(new Set(rows.map((row) => row?.id)).size, 1)
    t.same(
      rows.map((row) => row?.description),
      Array.from({ length: 64 }, (_, index) => String(index)),
      'each is answered with what it reported',
    )
    const [status, ...others] = await store.statuses.list(id, SHA)
    t.same(others, [])
    t.match(status, { id: rows[0]?.id ?? '' })
  })

  test('stores 112 concurrent contexts', async (t) => {
    const { store, id, report } = await openRepository(t, database)
    await Promise.all(Array.from({ length: 112 }, (_, index) => report(`ci ${index}`)))
    t.equal((await store.statuses.list(id, SHA)).length, 112)
  })

  test('limits the contexts of a commit', async (t) => {
    const { store, options, id, report } = await openRepository(t, database, { maxContexts: 3 })
    await Promise.all(['a', 'b', 'c'].map((context) => report(context)))
    const refused = {
      code: 'field_invalid',
      message: 'context: this commit already has 3 contexts, the maximum. Report to an existing one instead.',
    }
    await t.rejects(report('d'), refused)
    t.match(await report('b', { state: 'failure' }), { context: 'b', state: 'failure' }, 'replacing goes on')
    t.match(await report('d', { sha: 'b'.repeat(40) }), { context: 'd' }, 'another commit')
    const other = await createRepository(store, 'other')
    t.match(await report('d', { repositoryId: other.id }), { context: 'd' }, 'another repository')

    const lower = await openStore({ ...options, maxContexts: 1 })
    t.teardown(() => lower.close())
    const values = { ...ERROR, repositoryId: id }
    t.match(await lower.statuses.report({ ...values, context: 'c' }), { state: 'error' })
    await t.rejects(lower.statuses.report({ ...values, context: 'd' }), { code: 'field_invalid' })
    t.equal((await lower.statuses.list(id, SHA)).length, 3, 'a commit above the limit stays readable')
  })

  test('a commit has at most 1,000 contexts, whatever is configured', async (t) => {
    const { store, id, report } = await openRepository(t, database, { maxContexts: 5_000 })
    const row = {
      repository_id: id,
      sha: SHA,
      id: 'id',
      state: 'success',
      created_at: 1,
      updated_at: 1,
    } as const
    await store.engine.kysely
      .insertInto('statuses')
      .values(Array.from({ length: 1_000 }, (_, index) => ({ ...row, context: `${index}` })))
      .execute()
    await t.rejects(report('new'), { code: 'field_invalid', message: /already has 1000 contexts/ })
    t.match(await report('7', { state: 'error' }), { created_at: 1, state: 'error' })
    t.equal((await store.statuses.list(id, SHA)).length, 1_000)
  })

  test('a report does not hide what another process reported before it', async (t) => {
    const { store, options, id, report } = await openRepository(t, database)
    const other = await openStore(options)
    t.teardown(() => other.close())
    await report('a')
    t.match(await store.statuses.list(id, SHA), [{ context: 'a' }])
    await other.statuses.report({ ...ERROR, repositoryId: id, context: 'b' })
    await report('c', { sha: 'c'.repeat(40) })
    t.match(await store.statuses.list(id, SHA), [{ context: 'a' }, { context: 'b' }])
  })

  test('the limit considers what other processes add and remove', async (t) => {
    const { store, options, id, report } = await openRepository(t, database, { maxContexts: 4 })
    const other = await openStore(options)
    t.teardown(() => other.close())
    const full = { code: 'field_invalid' }
    const values = { ...ERROR, repositoryId: id }
    const elsewhere = (context: string) => other.statuses.report({ ...values, context })
    await report('a')
    await elsewhere('b')
    await report('c')
    await elsewhere('d')
    await t.rejects(report('e'), full)
    await t.rejects(elsewhere('e'), full)
    t.match(await report('b'), { context: 'b' })

    t.equal(
      await createPruning(other, { no_longer_in_git: true })(id, [SHA], Math.floor(Date.now() / 1000) + 10),
      4,
    )
    for (const context of ['e', 'f', 'g', 'h']) t.match(await report(context), { context })
    await t.rejects(report('i'), full)
    t.equal(
      await createPruning(store, { no_longer_in_git: true })(id, [SHA], Math.floor(Date.now() / 1000) + 10),
      4,
    )
    t.match(await report('i'), { context: 'i' })
    t.match(await elsewhere('j'), { context: 'j' })
  })

  test('the limit of contexts is exact, however many reports run at once', async (t) => {
    const limits = { maxContexts: 20, poolSize: 12, statementTimeout: false }
    const { store, options, id } = await openRepository(t, database, limits)
    const others = await Promise.all([0, 1].map(() => openStore(options)))
    t.teardown(() => Promise.all(others.map((other) => other.close())))
    for (let round = 0; round < LIMIT_ROUNDS; round++) {
      const sha = String(round).padStart(40, '0')
      const values = { ...ERROR, repositoryId: id, sha }
      const outcomes = await Promise.allSettled(
        Array.from({ length: 60 }, (_, index) => {
          const { statuses } = [store, ...others][index % 3] ?? store
          // Two of them report the same contexts.
          return statuses.report({ ...values, context: `${index % 55}` })
        }),
      )
      const stored = new Set((await store.statuses.list(id, sha)).map(({ context }) => context))
      t.equal(stored.size, 20)
      outcomes.forEach((outcome, index) => {
        if (stored.has(`${index % 55}`)) t.equal(outcome.status, 'fulfilled')
        else t.match(outcome, { status: 'rejected', reason: { code: 'field_invalid' } })
      })
      const [known = ''] = stored
      t.match(await store.statuses.report({ ...values, context: known }), { context: known })
    }
  })

  test('the limit of contexts is exact while several processes reach it', async (t) => {
    const { store, options, id } = await openRepository(t, database, { maxContexts: 40 })
    const acknowledged = await Promise.all(
      [0, 20, 40].map((first) => {
        const contexts = Array.from({ length: 50 }, (_, index) => `${first + index}`)
        return reportInProcess({ options, repositoryId: id, sha: SHA, contexts })
      }),
    )
    const stored = (await store.statuses.list(id, SHA)).map(({ context }) => context)
    t.equal(stored.length, 40)
    t.same([...new Set(acknowledged.flat())].sort(), stored.sort(), 'exactly the acknowledged contexts')
  })

  test('keeps statuses of repositories and commits apart', async (t) => {
    const { store, id, report } = await openRepository(t, database)
    const other = await createRepository(store, 'other')
    const sha = 'b'.repeat(64)
    await report('ci')
    await report('ci', { sha, state: 'failure' })
    await report('ci', { repositoryId: other.id, state: 'pending' })
    t.same(
      (await store.statuses.list(id, SHA)).map(({ state }) => state),
      ['success'],
    )
    t.equal(await store.statuses.hasAny(id, sha), true)
    t.equal(await store.statuses.hasAny(other.id, sha), false)
    await report('ci', { repositoryId: other.id, sha })
    t.equal(await store.statuses.hasAny(other.id, sha), true, 'right after the first report')
  })

  test('counts statuses by state', async (t) => {
    const { store, options, id, report } = await openRepository(t, database)
    const other = await createRepository(store, 'other')
    const sha = 'b'.repeat(40)
    const none = NO_STATUSES.counts
    t.same(await store.summaries.countByState(id, SHA), none)
    for (const context of ['1', '2', '3']) await report(context)
    await report('4', { state: 'error' })
    await report('1', { sha, state: 'pending' })
    await report('1', { repositoryId: other.id, state: 'failure' })
    t.same(await store.summaries.countByState(id, SHA), { ...none, success: 3, error: 1 })
    t.same(await store.summaries.countByState(id, sha), { ...none, pending: 1 })
    await report('2', { state: 'pending' })
    t.same(await store.summaries.countByState(id, SHA), { ...none, success: 2, pending: 1, error: 1 })

    await reportInProcess({ options, repositoryId: id, sha: SHA, contexts: ['5', '6'] })
    const counts = { ...none, success: 4, pending: 1, error: 1 }
    t.same(await store.summaries.countByState(id, SHA), counts, 'also those of another process')
  })

  test('lists a commit with its reporters in the same order', async (t) => {
    const { store, id, report } = await openRepository(t, database)
    for (const context of ['a', 'B', 'é', 'z', '\u{1D41A}', '\uFF41', '_']) await report(context)
    await report('another', { sha: 'b'.repeat(40) })
    const none = { pending_at: null, run: null, claim_run: null, reporter_user: null, reporter_token: null }
    const expected = (await store.statuses.list(id, SHA)).map((row) => ({ ...row, ...none }))
    t.same(await store.statuses.listWithReporters({ repositoryId: id, sha: SHA }), expected)
    t.equal(expected.length, 7)
  })

  test('deleting a repository deletes its statuses, also concurrent ones', async (t) => {
    const { store, id, report } = await openRepository(t, database)
    await report('before')
    const reports = Array.from({ length: 40 }, (_, index) => report(`meanwhile ${index}`))
    await asAdministrator(store).repositories.delete({ owner: 'acme', name: 'repo' })
    for (const row of await Promise.all(reports)) t.ok(row === undefined || row.sha === SHA)
    for (const context of ['before', 'after']) t.equal(await report(context), undefined)
    await store.repositories.removeDeleted(id, async () => {})
    t.same(await store.statuses.list(id, SHA), [])
    t.equal(await report('after'), undefined)
  })

  test('reads at once what another process stored', async (t) => {
    const { store, options, id } = await openRepository(t, database)
    await reportInProcess({ options, repositoryId: id, sha: SHA, contexts: ['one', 'two'] })
    t.same(
      (await store.statuses.list(id, SHA)).map(({ context }) => context),
      ['one', 'two'],
    )
  })
}

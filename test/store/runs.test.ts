import Sqlite from 'better-sqlite3'
import t, { type Test } from 'tap'
import type { Report } from '../../src/store/statuses/statuses.ts'
import { databaseFile, openStore, type Store } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, execute, openTestStore, sqlite, type TestDatabase } from '../helpers/databases.ts'
import { type Arrival, reportSequences } from '../helpers/run-sequences.ts'

const SHA = 'a'.repeat(40)
const HOUR = 3_600_000

/** Opens two stores of one database, each with its own connections. */
async function openTwo(t: Test, database: TestDatabase) {
  const { store, options } = await openTestStore(t, database, { statementTimeout: false })
  const other = await openStore(options)
  t.teardown(() => other.close())
  const repository = { owner: 'acme', name: 'repo', visibility: 'public', objectFormat: 'sha1' } as const
  const { id } = await asAdministrator(store).repositories.create(repository)
  /** Reports a state of a run that began this many seconds ago. */
  const report = (run: string, seconds: number, state: Report['state'], context = 'ci', to: Store = store) =>
    to.statuses.report({ repositoryId: id, sha: SHA, context, state, run, elapsed: seconds * 1000 })
  const reportWithoutRun = (state: Report['state']) =>
    store.statuses.report({ repositoryId: id, sha: SHA, context: 'ci', state })
  const list = async () =>
    (await other.statuses.list(id, SHA)).map(({ context, state }) => `${context} ${state}`)
  return { stores: [store, other] as const, options, id, report, reportWithoutRun, list }
}

const SUPERSEDED = { name: 'ServiceError', code: 'run_superseded' }
const LATE = { name: 'ServiceError', code: 'report_late' }

/** A report of a run that began this many seconds ago, or of none. */
type Given = [state: Report['state'], run?: string, ago?: number]
/** What the contract says of a report that comes after others. */
const TABLE: readonly [name: string, before: Given[], comes: Given, refusal?: typeof SUPERSEDED][] = [
  ['nothing is stored', [], ['pending', 'R', 60]],
  ['nothing is stored, no run comes', [], ['pending']],
  ['no run is stored', [['success']], ['pending', 'R', 60]],
  ['a run is stored, no run comes', [['success', 'R', 0]], ['pending']],
  ['a run was stored, but no run since', [['failure', 'R', 60], ['failure']], ['success', 'S', 90]],
  ['a pending of the run is stored', [['pending', 'R', 60]], ['pending', 'R', 90]],
  ['a pending of the run is stored, its result comes', [['pending', 'R', 60]], ['failure', 'R', 60]],
  ['a result of the run is stored', [['failure', 'R', 60]], ['success', 'R', 60]],
  ['a result, then a pending of the run', [['failure', 'R', 60]], ['pending', 'R', 60], LATE],
  ['another run that began 4 s before', [['failure', 'R', 60]], ['pending', 'S', 64]],
  ['another run that began after it', [['failure', 'R', 60]], ['success', 'S', 30]],
  ['another run that began 6 s before', [['failure', 'R', 60]], ['success', 'S', 66], SUPERSEDED],
  ['another pending that began 6 s before', [['pending', 'R', 60]], ['pending', 'S', 66], SUPERSEDED],
  // What remains.
  [
    'a pending after its own result was replaced',
    [
      ['failure', 'R', 60],
      ['failure', 'S', 58],
    ],
    ['pending', 'R', 60],
  ],
  ['pendings in reverse order, of runs within 5 s', [['pending', 'S', 58]], ['pending', 'R', 60]],
]

for (const database of databases) {
  const test = (name: string, work: (t: Test) => Promise<void>) => t.test(`${database.name}: ${name}`, work)

  for (const [name, before, comes, refusal] of TABLE)
    test(`${name}: ${refusal ? 'refused' : 'stored'}`, async (t) => {
      const { stores, id, list } = await openTwo(t, database)
      const send = ([state, run, ago = 0]: Given, description: string) =>
        stores[0].statuses.report({
          ...{ repositoryId: id, sha: SHA, context: 'ci', state, description },
          ...(run !== undefined && { run, elapsed: ago * 1000 }),
        })
      for (const given of before) await send(given, 'before')
      const [last] = refusal ? (before.at(-1) ?? []) : comes
      if (refusal) await t.rejects(send(comes, 'after'), refusal)
      else t.match(await send(comes, 'after'), { state: comes[0] })
      t.same(await list(), [`ci ${last}`])
      const [stored] = await stores[1].statuses.list(id, SHA)
      t.equal(stored?.description, refusal ? 'before' : 'after')
    })

  test('a run replaces an older run, whatever was lost, and is not replaced by one', async (t) => {
    const { report, reportWithoutRun, list, stores, id } = await openTwo(t, database)
    const first = await report('old', 60, 'pending')
    t.match(first, { state: 'pending', description: null })
    t.notOk(first && ('run' in first || 'elapsed' in first), 'an answer does not contain the run')
    t.match(await report('old', 60, 'success'), { id: first?.id, state: 'success' })
    // The pending of the newer run was lost.
    t.match(await report('new', 30, 'failure'), { id: first?.id, state: 'failure' })
    const before = await stores[0].engine.kysely.selectFrom('statuses').selectAll().execute()
    await t.rejects(report('old', 60, 'success'), SUPERSEDED)
    await t.rejects(report('old', 60, 'pending'), SUPERSEDED)
    await t.rejects(report('new', 30, 'pending'), LATE)
    const after = await stores[0].engine.kysely.selectFrom('statuses').selectAll().execute()
    t.same(after, before, 'a refused report changes nothing')
    t.same(await list(), ['ci failure'])
    t.match(await report('new', 30, 'success'), { state: 'success' }, 'a run may correct its result')

    t.match(await reportWithoutRun('error'), { state: 'error' }, 'a report without a run is always stored')
    t.match(await report('old', 60, 'pending'), { state: 'pending' }, 'and belongs to no run')
    await report('new', 30, 'failure')
    await asAdministrator(stores[0]).statuses.delete({ repositoryId: id, sha: SHA }, 'ci')
    t.match(await report('old', 60, 'success'), { state: 'success' }, 'a deleted status forgets its run')
  })

  test('runs that began within 5 seconds of each other replace each other', async (t) => {
    const { report } = await openTwo(t, database)
    await report('one', 20, 'failure')
    t.match(await report('other', 24, 'success'), { state: 'success' })
    t.match(await report('one', 20, 'error'), { state: 'error' })
    await t.rejects(report('other', 26, 'success'), SUPERSEDED)
  })

  test('a run began at the earliest time that it gave', async (t) => {
    const { report } = await openTwo(t, database)
    await report('one', 30, 'pending')
    await report('one', 10, 'success')
    t.match(await report('other', 33, 'failure'), { state: 'failure' })
    await report('one', 10, 'success')
    await t.rejects(report('other', 33, 'failure'), SUPERSEDED)
    await report('one', 60, 'error')
    t.match(await report('other', 33, 'failure'), { state: 'failure' }, 'a later report can be the earliest')
  })

  test('a run counts although its status was last updated in the future', async (t) => {
    const { report, reportWithoutRun, stores } = await openTwo(t, database)
    await reportWithoutRun('failure')
    await stores[0].engine.kysely
      .updateTable('statuses')
      .set((eb) => ({ updated_at: eb('updated_at', '+', 3_600) }))
      .execute()
    await report('new', 30, 'failure')
    await t.rejects(report('old', 60, 'success'), SUPERSEDED)
  })

  test('a clock that was set back refuses no new run', async (t) => {
    const { report, stores } = await openTwo(t, database)
    await report('before', 0, 'failure')
    const setBack = () =>
      stores[0].engine.kysely
        .updateTable('statuses')
        .set((eb) => ({ run_began_at: eb('run_began_at', '+', HOUR) }))
        .execute()
    await setBack()
    await t.rejects(report('older', 60, 'success'), SUPERSEDED)
    // All that counts then is the clock, which PostgreSQL asks twice.
    const within = database === sqlite ? 5 : 4.5
    await t.rejects(report('older', 5.001, 'success'), SUPERSEDED, 'more than 5 seconds')
    t.match(await report('new', within, 'pending'), { state: 'pending' })
    await setBack()
    t.match(await report('new', 30, 'success'), { state: 'success' })
  })

  test('a run counts only while the stored report is its own', async (t) => {
    const { report, options, id, list } = await openTwo(t, database)
    /** Reports as a server of version 0.3.0 does, which does not know the columns of runs. */
    const reportByOldServer = (state: string) => {
      const now = Math.floor(Date.now() / 1000)
      const columns = `repository_id, sha, context, id, state, description, target_url, created_at, updated_at, reporter_id`
      const values = `${id}, '${SHA}', 'ci', 'x', '${state}', null, null, ${now}, ${now}, null`
      const statement = `insert into statuses (${columns}) values (${values})
        on conflict (repository_id, sha, context) do update set state = excluded.state,
        description = excluded.description, target_url = excluded.target_url,
        updated_at = ${options.databaseUrl ? 'greatest' : 'max'}(excluded.updated_at, statuses.updated_at),
        reporter_id = excluded.reporter_id`
      if (options.databaseUrl) return execute(options.databaseUrl, statement)
      const db = new Sqlite(databaseFile(options.dataDir))
      db.exec(statement)
      return db.close()
    }
    for (const state of ['success', 'failure'] as const) {
      await report('new', 10, state)
      await reportByOldServer('error')
      t.match(await report('old', 60, 'success'), { state: 'success' }, 'in the same second')
      await reportByOldServer('pending')
      t.match(await report('new', 10, 'pending'), { state: 'pending' })
      await report('new', 10, state)
      await t.rejects(report('old', 60, 'success'), SUPERSEDED, 'its own report counts again')
      await t.rejects(report('new', 10, 'pending'), LATE)
      t.same(await list(), [`ci ${state}`])
    }
  })

  test('the newest run wins, in whatever order two servers store reports', async (t) => {
    const { report, list, stores } = await openTwo(t, database)
    const contexts = Array.from({ length: 40 }, (_, index) => `${index}`.padStart(2, '0'))
    const rounds = contexts.flatMap((context, index) =>
      (['a', 'b', 'c'] as const).flatMap((run, age) =>
        (['pending', run === 'c' ? 'failure' : 'success'] as const).map((state, part) => ({
          order: Math.sin(index * 7 + age * 3 + part),
          send: () => report(run, 90 - 30 * age, state, context, stores[(index + age + part) % 2]),
        })),
      ),
    )
    const answers = await Promise.allSettled(
      rounds.toSorted((one, other) => one.order - other.order).map(({ send }) => send()),
    )
    for (const answer of answers)
      if (answer.status === 'rejected') t.match(answer.reason, { name: 'ServiceError' })
    t.same(
      await list(),
      contexts.map((context) => `${context} failure`),
    )
  })

  test('new contexts of runs share the limit of contexts', async (t) => {
    const { options, id } = await openTwo(t, database)
    const store = await openStore({ ...options, maxContexts: 3 })
    t.teardown(() => store.close())
    const report = (context: string, run: string, elapsed: number) =>
      store.statuses.report({ repositoryId: id, sha: SHA, context, state: 'success', run, elapsed })
    for (const context of ['a', 'b', 'c']) await report(context, 'one', 0)
    await t.rejects(report('d', 'one', 0), { code: 'field_invalid', message: /maximum/ })
    t.match(await report('a', 'one', 0), { context: 'a' })
    await t.rejects(report('a', 'other', 60_000), SUPERSEDED, 'not taken for too many contexts')
  })

  test('sequences of reports end as the model says, whatever is lost, doubled or late', async (t) => {
    const { stores } = await openTwo(t, database)
    const counts = await reportSequences(stores, ARRIVALS, 3)
    t.match(counts, { sequences: ARRIVALS.length ** 3, wronglyGreen: 0 })
    t.ok(counts.run_superseded > 0 && counts.report_late > 0)
  })
}

/** Two runs, one of which may be delivered late, and a report without a run. */
const ARRIVALS: readonly Arrival[] = [
  { run: 'a', state: 'pending', began: 0 },
  { run: 'a', state: 'success', began: 0 },
  { run: 'b', state: 'pending', began: 20_000 },
  { run: 'b', state: 'failure', began: 20_000 },
  { run: 'near b', state: 'pending', began: 22_000 },
  { run: 'near b', state: 'failure', began: 22_000 },
  { state: 'failure', began: 0 },
]

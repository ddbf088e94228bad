import { resolve } from 'node:path'
import { sql } from 'kysely'
import t from 'tap'
import { createPruning, pruneStatuses } from '../../src/maintenance/prune.ts'
import { openEngine, openStore } from '../../src/store/store.ts'
import { nowInSeconds } from '../../src/store/time.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, type TestDatabase, withoutLimit } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { startProcess } from '../helpers/process.ts'
import { addReport } from '../helpers/records.ts'
import { until } from '../helpers/until.ts'

const DAY = 86_400

async function openAged(t: Parameters<TestDatabase['create']>[0], database: TestDatabase) {
  const options = await withoutLimit(database).create(t)
  const store = await openStore(options)
  const engine = await openEngine(options)
  t.teardown(async () => {
    await engine.close()
    await store.close()
  })
  const { id } = await asAdministrator(store).repositories.create({
    owner: 'alice',
    name: 'rocket',
    visibility: 'public',
    objectFormat: 'sha1',
  })
  return {
    options,
    store,
    id,
    prune: createPruning(store, { no_longer_in_git: true }),
    /** Stores a report and dates it back by a number of days. */
    async report(sha: string, context: string, days: number) {
      await addReport({ store, repositoryId: id, sha }, context)
      const updated_at = nowInSeconds() - days * DAY
      await engine.kysely
        .updateTable('statuses')
        .set({ created_at: updated_at, updated_at })
        .where('repository_id', '=', id)
        .where('sha', '=', sha)
        .where('context', '=', context)
        .execute()
    },
  }
}

for (const database of databases) {
  t.test(`${database.name}: a commit keeps all of its statuses or none`, async (t) => {
    const aged = await openAged(t, database)
    const [old, mixed, recent] = ['a', 'b', 'c'].map((digit) => digit.repeat(40))
    await aged.report(old ?? '', 'one', 400)
    await aged.report(old ?? '', 'two', 366)
    await aged.report(mixed ?? '', 'one', 400)
    await aged.report(mixed ?? '', 'two', 364)
    await aged.report(recent ?? '', 'one', 1)
    let last: number[] = []
    await pruneStatuses(aged.store, nowInSeconds() - 365 * DAY, (...counts) => {
      last = counts
    })
    t.same(last, [3, 2], 'commits checked, statuses removed')
    const left = (sha = '') => aged.store.statuses.list(aged.id, sha)
    t.equal((await left(old)).length, 0)
    t.equal((await left(mixed)).length, 2)
    t.equal((await left(recent)).length, 1)
    const limit = (await left(mixed))[1]?.updated_at ?? 0
    t.equal(await aged.prune(aged.id, [mixed ?? ''], limit), 0, 'a report of that second')
  })

  t.test(`${database.name}: prunes in several batches`, async (t) => {
    const { store, id } = await openAged(t, database)
    const shas = Array.from({ length: 1_201 }, (_, index) => index.toString(16).padStart(40, '0'))
    for (let from = 0; from < shas.length; from += 300)
      await Promise.all(
        shas.slice(from, from + 300).map((sha) => addReport({ store, repositoryId: id, sha }, 'default')),
      )
    const steps: number[][] = []
    await pruneStatuses(store, nowInSeconds() + 10, (...counts) => steps.push(counts))
    t.same(steps, [
      [500, 500],
      [1_000, 1_000],
      [1_201, 1_201],
    ])
    t.equal(await store.statuses.hasAny(id, shas[1_200] ?? ''), false)
  })

  t.test(`${database.name}: keeps commits that are reported on meanwhile`, async (t) => {
    const aged = await openAged(t, database)
    const sha = 'a'.repeat(40)
    await aged.report(sha, 'one', 400)
    const before = nowInSeconds() - 365 * DAY
    // It was old when it was selected, but is reported on before it is removed.
    await addReport({ store: aged.store, repositoryId: aged.id, sha }, 'two')
    t.equal(await aged.prune(aged.id, [sha], before), 0)
    t.equal((await aged.store.statuses.list(aged.id, sha)).length, 2)
  })

  t.test(`${database.name}: concurrent pruning loses no acknowledged report`, async (t) => {
    const aged = await openAged(t, database)
    const shas = Array.from({ length: 200 }, (_, index) => index.toString(16).padStart(40, '0'))
    for (const sha of shas) await aged.report(sha, 'default', 400)
    const before = nowInSeconds() - 365 * DAY
    const reporting = Promise.all(
      shas.map((sha) => addReport({ store: aged.store, repositoryId: aged.id, sha }, 'default')),
    )
    await Promise.all([reporting, pruneStatuses(aged.store, before, () => {})])
    for (const sha of shas) t.equal((await aged.store.statuses.list(aged.id, sha)).length, 1, sha)
  })

  t.test(`${database.name}: one event says how much a run removed, step by step`, async (t) => {
    const aged = await openAged(t, database)
    const [one, other, recent] = ['a', 'b', 'c'].map((digit) => digit.repeat(40))
    for (const context of ['one', 'two', 'three']) await aged.report(one ?? '', context, 400)
    await aged.report(other ?? '', 'one', 400)
    await aged.report(recent ?? '', 'one', 1)
    const before = nowInSeconds() - 365 * DAY
    const events = async () => (await listEvents(aged.store)).filter(({ object }) => object === 'statuses')
    await aged.prune(aged.id, [recent ?? ''], before)
    t.same(await events(), [], 'what removes nothing is no event')
    await aged.prune(aged.id, [one ?? '', recent ?? ''], before)
    const first = { action: 'statuses.pruned', actor: 'administrator', user: null }
    t.match(await events(), [{ ...first, details: { no_longer_in_git: true, commits: 1, statuses: 3 } }])
    await aged.prune(aged.id, [other ?? ''], before)
    t.match(await events(), [{ ...first, details: { no_longer_in_git: true, commits: 2, statuses: 4 } }])
    await aged.report(other ?? '', 'one', 400)
    await pruneStatuses(aged.store, before, () => {})
    const { details } = (await events())[1] ?? {}
    t.same(details, { before: new Date(before * 1000).toISOString(), commits: 1, statuses: 1 })
  })

  t.test(`${database.name}: a run whose event is removed meanwhile records all in another one`, async (t) => {
    const aged = await openAged(t, database)
    const shas = ['a', 'b'].map((digit) => digit.repeat(40))
    for (const sha of shas) {
      await aged.report(sha, 'one', 400)
      await aged.store.engine.kysely.deleteFrom('audit_events').execute()
      await aged.prune(aged.id, [sha], nowInSeconds())
    }
    const action = 'statuses.pruned'
    t.match(await listEvents(aged.store), [{ action, details: { commits: 2, statuses: 2 } }])
  })

  t.test(`${database.name}: the event of a run that was killed has exact numbers`, async (t) => {
    const { store, options, id } = await openAged(t, database)
    // So many that it has not ended when it is killed.
    const [commits, statuses] = [30_000, 60_000]
    await sql`with recursive numbers (i) as (select 0 union all select i + 1 from numbers where i < ${sql.lit(statuses - 1)})
      insert into statuses (repository_id, sha, context, id, state, created_at, updated_at)
      select ${sql.lit(id)}, 'c' || (i / 2), 'context ' || (i % 2), 'id' || i, 'success', 1, 1 from numbers`.execute(
      store.engine.kysely,
    )
    const { child, ended } = startProcess(
      t,
      process.execPath,
      [resolve(import.meta.dirname, '../../src/cli/main.ts'), 'prune', '--older-than', '1d'],
      { DATA_DIR: options.dataDir, ...(options.databaseUrl && { DATABASE_URL: options.databaseUrl }) },
    )
    const found = async () => (await listEvents(store)).find(({ action }) => action === 'statuses.pruned')
    await until(async () => (await found()) !== undefined)
    child.kill('SIGKILL')
    t.equal(await ended, 'SIGKILL', 'it was under way')
    const left = await store.engine.kysely
      .selectFrom('statuses')
      .select((eb) => [
        eb.fn.countAll<number>().as('statuses'),
        eb.fn.count<number>('sha').distinct().as('commits'),
      ])
      .executeTakeFirstOrThrow()
    t.ok(left.statuses > 0, `${left.statuses} are left`)
    t.match((await found())?.details, {
      commits: commits - Number(left.commits),
      statuses: statuses - Number(left.statuses),
    })
  })
}

import t from 'tap'
import { pruneStatuses, removeCommits } from '../../src/maintenance/prune.ts'
import { openEngine, openStore } from '../../src/store/store.ts'
import { nowInSeconds } from '../../src/store/time.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, type TestDatabase } from '../helpers/databases.ts'
import { addReport } from '../helpers/records.ts'

const DAY = 86_400

async function openAged(t: Parameters<TestDatabase['create']>[0], database: TestDatabase) {
  const options = await database.create(t)
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
    store,
    id,
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
    await pruneStatuses(aged.store.engine, nowInSeconds() - 365 * DAY, (...counts) => {
      last = counts
    })
    t.same(last, [3, 2], 'commits checked, statuses removed')
    const left = (sha = '') => aged.store.statuses.list(aged.id, sha)
    t.equal((await left(old)).length, 0)
    t.equal((await left(mixed)).length, 2)
    t.equal((await left(recent)).length, 1)
    const limit = (await left(mixed))[1]?.updated_at ?? 0
    t.equal(
      await removeCommits(aged.store.engine, aged.id, [mixed ?? ''], limit),
      0,
      'a report of that second',
    )
  })

  t.test(`${database.name}: prunes in several batches`, async (t) => {
    const { store, id } = await openAged(t, database)
    const shas = Array.from({ length: 1_201 }, (_, index) => index.toString(16).padStart(40, '0'))
    for (let from = 0; from < shas.length; from += 300)
      await Promise.all(
        shas.slice(from, from + 300).map((sha) => addReport({ store, repositoryId: id, sha }, 'default')),
      )
    const steps: number[][] = []
    await pruneStatuses(store.engine, nowInSeconds() + 10, (...counts) => steps.push(counts))
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
    t.equal(await removeCommits(aged.store.engine, aged.id, [sha], before), 0)
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
    await Promise.all([reporting, pruneStatuses(aged.store.engine, before, () => {})])
    for (const sha of shas) t.equal((await aged.store.statuses.list(aged.id, sha)).length, 1, sha)
  })
}

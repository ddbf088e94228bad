import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import t from 'tap'
import type { Pusher } from '../../src/domain/actors.ts'
import type { RefUpdate } from '../../src/domain/ref-updates.ts'
import { MAX_MOVES } from '../../src/store/repositories/branch-moves.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, openTestStore, postgres, type TestDatabase } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { addRepository } from '../helpers/records.ts'

const NONE = '0'.repeat(40)
const MAIN = 'refs/heads/main'
const idOf = (number: number) => number.toString(16).padStart(40, '0')
const [a, b, c, d] = [1, 2, 3, 4].map(idOf) as [string, string, string, string]

async function setUp(t: Parameters<typeof openTestStore>[0], database: TestDatabase) {
  const { store } = await openTestStore(t, database)
  const repository = await addRepository(store, 'acme/rocket', { commits: 0 })
  const pusher: Pusher = {
    by: { kind: 'user', user: { id: 1, name: 'ann' }, token: { id: 'x', name: 'ci' }, address: '192.0.2.1' },
    repositoryId: repository.id,
    repositoryName: 'acme/rocket',
  }
  const updateOf = (old: string, next: string, ref = MAIN): RefUpdate => ({ ref, old, new: next })
  const open = (...updates: RefUpdate[]) => store.pushes.open(pusher, updates)
  const settle = (id: number, ...updates: RefUpdate[]) => store.pushes.settle(id, pusher, { updates })
  return {
    store,
    repository,
    pusher,
    open,
    settle,
    updateOf,
    push: async (old: string, next: string, ref = MAIN) => {
      const update = updateOf(old, next, ref)
      await settle(await open(update), update)
    },
    tips: (tip: string, ref = MAIN, which?: 'latest' | 'all') =>
      store.listTips(repository.id, ref, tip, which),
    rows: () =>
      store.engine.kysely.selectFrom('branch_moves').selectAll().orderBy('ref').orderBy('push_id').execute(),
  }
}

t.test('PostgreSQL: many moves of one branch keep questions about other repositories together', async (t) => {
  const { store, repository } = await setUp(t, postgres)
  const moves = Array.from({ length: 60 }, (_, index) => ({
    repository_id: repository.id,
    ref: MAIN,
    push_id: index,
    old_id: idOf(index),
    new_id: idOf(index + 1),
  }))
  await store.engine.kysely.insertInto('branch_moves').values(moves).execute()
  const batches: number[] = []
  store.engine.observeBatches?.((waits) => batches.push(waits.length))
  const ask = () =>
    Promise.all(
      Array.from({ length: 20 }, (_, index) => store.listTips(repository.id + index, MAIN, idOf(60))),
    )
  t.same(
    (await ask()).map(({ length }) => length),
    [60, ...Array.from({ length: 19 }, () => 1)],
  )
  batches.length = 0
  await ask()
  t.ok(Math.max(...batches) >= 19, `${batches}`)
})

for (const database of databases) {
  t.test(`${database.name}: what a branch was at is what pushes moved it from and to`, async (t) => {
    const { push, tips, rows } = await setUp(t, database)
    t.same(await tips(a), [a], 'nothing is recorded')
    await push(NONE, a)
    t.same(await tips(a), [a])
    await push(a, b)
    await push(a, b, 'refs/heads/other')
    await push(a, b, 'refs/tags/v1')
    await push(b, a)
    await push(a, c)
    t.same(await tips(c), [c, a, b, a])
    t.same(await tips(d), [d, c, a, b, a], 'a move that is not recorded')
    t.same(await tips(b, 'refs/heads/other'), [b, a], 'a branch from before')
    t.notMatch(await rows(), [{ ref: 'refs/tags/v1' }], 'tags are not recorded')
    await push(c, NONE)
    t.same(await tips(c), [c], 'deleted')
    await push(NONE, d)
    t.same(await tips(d), [d], 'created again')
    await push(d, c)
    t.same(await tips(c), [c, d])
  })

  t.test(`${database.name}: a push of a name that no index can hold gets its event`, async (t) => {
    const { push, tips, rows, store } = await setUp(t, database)
    // Not compressible.
    const part = () => randomBytes(100).toString('hex')
    const long = `refs/heads/${Array.from({ length: 15 }, part).join('/')}`
    await push(NONE, a, long)
    t.same(await tips(a, long), [a])
    t.same(await rows(), [], 'its moves are not recorded')
    t.equal((await listEvents(store)).filter(({ action }) => action === 'push').length, 1)
    await push(a, b, long.slice(0, 1_900))
    t.equal((await rows()).length, 1)
  })

  t.test(`${database.name}: pushes count in the order in which they began`, async (t) => {
    const { open, settle, tips, updateOf } = await setUp(t, database)
    const moves = [updateOf(NONE, a), updateOf(a, b), updateOf(b, NONE), updateOf(NONE, c), updateOf(c, d)]
    const ids: number[] = []
    for (const move of moves) ids.push(await open(move))
    for (const index of [4, 3, 1, 0, 2]) await settle(ids[index] ?? 0, ...[moves[index] ?? []].flat())
    t.same(await tips(d), [d, c])
    await settle(ids[4] ?? 0, updateOf(c, d))
    t.same(await tips(d), [d, c], 'a push that was settled twice')
  })

  t.test(`${database.name}: a move of an open push counts once git has made it`, async (t) => {
    const { push, open, settle, tips, updateOf, store, repository } = await setUp(t, database)
    await push(NONE, a)
    const version = await store.versions.ofAll(undefined)
    const first = await open(updateOf(a, b), updateOf(NONE, d, 'refs/heads/ma%n'))
    t.not(await store.versions.ofAll(undefined), version, 'pages are not current any more')
    t.same(await tips(a), [a], 'not made yet')
    t.same(await tips(b), [b, a])
    const second = await open(updateOf(b, c))
    await open(updateOf(b, d))
    t.same(await tips(b), [b, a])
    t.same(await tips(c), [c, b, a], 'one that builds on it, beside one that git refuses')
    await settle(second, updateOf(b, c))
    t.same(await tips(c), [c, b, a])
    await settle(first, updateOf(a, b))
    t.same(await tips(c), [c, b, a])
    t.same(await store.listTips(repository.id + 1, MAIN, c), [c], 'another repository')
    await open(updateOf(NONE, d, 'refs/heads/new'))
    t.same(await tips(d, 'refs/heads/new'), [d], 'a new branch')
    const odd = 'refs/heads/a!b_%c'
    await open(updateOf(NONE, a, odd))
    t.same(await tips(c, odd), [c], 'not made yet')
    await open(updateOf(a, c, odd))
    t.same(await tips(c, odd), [c, a], 'a name with characters of patterns')
    await open(updateOf(c, NONE))
    await open(updateOf(NONE, d))
    t.same(await tips(d), [d], 'deleted and created')
    t.same(await tips(c), [c, b, a], 'not yet')
  })

  t.test(`${database.name}: the newest moves are kept`, async (t) => {
    const { store, repository, push, tips, rows } = await setUp(t, database)
    const ids = Array.from({ length: MAX_MOVES + 1 }, (_, index) => idOf(index + 1))
    const moves = ids.slice(1).map((id, index) => ({
      repository_id: repository.id,
      ref: MAIN,
      push_id: index - 2 * MAX_MOVES,
      old_id: ids[index] ?? '',
      new_id: id,
    }))
    for (const some of [moves.slice(0, 500), moves.slice(500)])
      await store.engine.kysely.insertInto('branch_moves').values(some).execute()
    await push(idOf(1), idOf(2), 'refs/heads/other')
    t.equal((await rows()).length, MAX_MOVES + 1)
    await push(ids.at(-1) ?? '', idOf(5_000))
    const kept = [idOf(5_000), ...ids.slice(1).reverse()]
    t.same(await tips(idOf(5_000), MAIN, 'all'), kept)
    t.same(await tips(idOf(5_000)), kept.slice(0, 301), 'a question needs the newest ones')
    t.same(await tips(idOf(5_000), MAIN, 'latest'), kept.slice(0, 21), 'or the latest ones')
    t.equal((await rows()).length, MAX_MOVES + 1)
  })

  t.test(`${database.name}: a deleted repository leaves no moves`, async (t) => {
    const { store, repository, push, open, settle, rows, updateOf, pusher } = await setUp(t, database)
    await push(NONE, a)
    const late = await open(updateOf(a, b))
    await asAdministrator(store).repositories.rename(repository, { owner: 'acme', name: 'renamed' })
    await settle(late, updateOf(a, b))
    t.same(await store.listTips(repository.id, MAIN, b), [b, a], 'the same after a rename')
    const last = await open(updateOf(b, c))
    await asAdministrator(store).repositories.delete({ owner: 'acme', name: 'renamed' })
    const left = await rows()
    t.equal(await store.pushes.settle(last, pusher, { updates: [updateOf(b, c)] }), true)
    t.same(await rows(), left, 'a push that ends later adds none')
    await store.repositories.removeDeleted(repository.id, async () => {})
    t.same(await rows(), [])
  })

  t.test(`${database.name}: a push of very many branches`, async (t) => {
    const { open, settle, rows, updateOf } = await setUp(t, database)
    const updates = Array.from({ length: 1_000 }, (_, index) => updateOf(NONE, a, `refs/heads/b${index}`))
    await settle(await open(...updates), ...updates)
    t.equal((await rows()).length, 1_000)
    const next = updates.map(({ ref }, index) => updateOf(a, index % 2 === 0 ? b : NONE, ref))
    await settle(await open(...next), ...next)
    t.equal((await rows()).length, 1_000, 'two of each second one')
  })
}

t.test('PostgreSQL: a push whose event could not be stored is refused before git starts', async (t) => {
  const { open, settle, store, updateOf, tips } = await setUp(t, postgres)
  const { kysely } = store.engine
  const tables = [
    ['push_intents', 'pusher'],
    ['audit_events', 'details'],
  ] as const
  for (const [table, column] of tables) {
    await sql`alter table ${sql.table(table)} add constraint latin check
      (convert_to(${sql.ref(column)}, 'LATIN1') is not null)`.execute(kysely)
    t.teardown(() => sql`alter table ${sql.table(table)} drop constraint latin`.execute(kysely))
  }
  const encoded = (name: string) => updateOf(NONE, a, `refs/heads/${Buffer.from(name).toString('latin1')}`)
  await t.rejects(open(encoded('功能')))
  const possible = encoded('grün')
  await settle(await open(possible), possible)
  t.same(await tips(a, possible.ref), [a])
  const pushes = (await listEvents(store)).filter(({ action }) => action === 'push')
  t.match(pushes, [{ details: { updates: [{ ref: 'refs/heads/grün' }] } }])
})

import { join } from 'node:path'
import { setImmediate as scheduleImmediate } from 'node:timers'
import { setImmediate, setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Prepared } from '../../../src/store/prepared.ts'
import { Connection } from '../../../src/store/sqlite/connection.ts'
import { openSqlite } from '../../../src/store/sqlite/engine.ts'
import { Turn } from '../../../src/store/sqlite/turn.ts'
import { temporaryFolder } from '../../helpers/databases.ts'

interface Row {
  name: string
  applied_at: number
}

const select: Prepared<Pick<Row, 'name'>, Pick<Row, 'applied_at'>> = {
  name: 'select',
  sql: 'select applied_at from schema_migrations where name = ?',
  bind: ({ name }) => [name],
}
const insert: Prepared<Row, never> = {
  name: 'insert',
  sql: 'insert into schema_migrations (name, applied_at) values (?, ?)',
  bind: ({ name, applied_at }) => [name, applied_at],
}
const update: Prepared<Row, never> = {
  name: 'update',
  sql: 'update schema_migrations set applied_at = ? where name = ?',
  bind: ({ name, applied_at }) => [applied_at, name],
}

/** Creates a database with a table of two rows, which are cached by their names. */
function createDatabase(t: Test) {
  const file = join(temporaryFolder(t), 'test.db')
  const connection = new Connection(file)
  t.teardown(() => connection.close())
  connection.raw.exec(
    "create table schema_migrations (name primary key, applied_at); insert into schema_migrations values ('a', 1), ('b', 1)",
  )
  return { file, connection }
}

async function openBoth(t: Test) {
  const { file } = createDatabase(t)
  const [engine, other] = [await openSqlite(file), await openSqlite(file)]
  t.teardown(() => Promise.all([engine.close(), other.close()]))
  const read = (name: string) => engine.read(select, { name }, { key: name })
  return { engine, other, read }
}

t.test('rows are the same array until another process commits', async (t) => {
  const { other, read } = await openBoth(t)
  const first = await read('a')
  t.same(first, [{ applied_at: 1 }])
  t.equal(await read('a'), first)
  for (const applied_at of [2, 3]) {
    await other.write(update, { name: 'a', applied_at }, 'a')
    t.same(await read('a'), [{ applied_at }])
  }
})

t.test('a commit of ours after one of another process hides nothing of that', async (t) => {
  const { engine, other, read } = await openBoth(t)
  await read('a')
  await other.write(update, { name: 'a', applied_at: 2 }, 'a')
  await engine.write(update, { name: 'b', applied_at: 2 }, 'b')
  t.same(await read('a'), [{ applied_at: 2 }])
})

t.test('a commit through Kysely is seen in the same turn of the event loop', async (t) => {
  const { engine, read } = await openBoth(t)
  let turns = 0
  await read('a')
  setImmediate(() => turns++)
  await engine.kysely.updateTable('schema_migrations').set({ applied_at: 2 }).execute()
  t.equal(turns, 0, 'Kysely has not waited')
  t.same(await read('a'), [{ applied_at: 2 }])
})

t.test('many rows leave the thread to others', async (t) => {
  const { engine, read } = await openBoth(t)
  const many: Prepared<{ rows: number }, { n: number }> = {
    name: 'many',
    sql: 'with recursive n (n) as (select 1 union all select n + 1 from n where n < ?) select n from n',
    bind: ({ rows }) => [rows],
  }
  let turn = 0
  const count = () => {
    turn++
    counting = scheduleImmediate(count)
  }
  let counting = scheduleImmediate(count)
  t.teardown(() => clearImmediate(counting))
  const timed = async (rows: Promise<unknown[]>) => ({ length: (await rows).length, turn })
  const readMany = (key: string, rows: number) => timed(engine.read(many, { rows }, { key }))
  const [small, large, same, other, last] = await Promise.all([
    timed(read('a')),
    readMany('large', 1_000),
    readMany('large', 1_000),
    readMany('other', 1_000),
    readMany('last', 10),
  ])
  t.same([large.length, same.length, other.length, last.length], [1_000, 1_000, 1_000, 10])
  t.comment(`turns: ${[small, large, same, other, last].map(({ turn }) => turn)}`)
  t.ok(Math.min(large.turn, same.turn) > small.turn, 'those who get many rows go on in a later turn')
  t.not(same.turn, large.turn, 'each in one of its own, also if they are cached')
  t.ok(other.turn > small.turn + 3, 'after turns without a query')
  t.ok(last.turn > other.turn + 1)
  const [again, cached] = await Promise.all([readMany('last', 10), timed(read('a'))])
  t.equal(again.turn, cached.turn, 'cached rows do not wait')
})

t.test('a commit that is not acknowledged invalidates all the same', async (t) => {
  const { connection } = createDatabase(t)
  const lost = new Error('the file is lost')
  let isLost = true
  const turn = new Turn(connection, {
    checkNowAndThen() {},
    check() {
      if (isLost) throw lost
    },
  })
  const read = () => turn.read(select, { name: 'a' }, { key: 'a' })
  t.same(await read(), [{ applied_at: 1 }])
  await t.rejects(turn.write(update, { name: 'a', applied_at: 2 }, 'a'), lost)
  isLost = false
  t.same(await read(), [{ applied_at: 2 }])
})

t.test('a statement that fails leaves the others of its group alone', async (t) => {
  const { engine, read } = await openBoth(t)
  const written = await Promise.allSettled([
    engine.write(insert, { name: 'c', applied_at: 1 }, 'c'),
    engine.write(insert, { name: 'a', applied_at: 9 }, 'a'),
    engine.write(update, { name: 'b', applied_at: 2 }, 'b'),
  ])
  t.same(
    written.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
  const rows = await Promise.all(['a', 'b', 'c'].map(read))
  t.same(rows.flat(), [{ applied_at: 1 }, { applied_at: 2 }, { applied_at: 1 }])
})

t.test('a group that cannot be committed is rolled back, and the next one is stored', async (t) => {
  const { file, connection } = createDatabase(t)
  connection.raw.exec('create table pairs (name references schema_migrations deferrable initially deferred)')
  const pair = {
    name: 'pair',
    sql: 'insert into pairs values (?)',
    bind: ({ name }: { name: string }) => [name],
  }
  const turn = new Turn(connection, { checkNowAndThen() {}, check() {} })
  const written = [
    turn.write(insert, { name: 'c', applied_at: 1 }, 'c'),
    turn.write(pair, { name: 'z' }, 'z'),
  ]
  for (const { status } of await Promise.allSettled(written)) t.equal(status, 'rejected')
  await turn.write(update, { name: 'b', applied_at: 2 }, 'b')
  const other = new Connection(file)
  t.teardown(() => other.close())
  t.same(
    ['b', 'c'].map((name) => other.all(select, { name })),
    [[{ applied_at: 2 }], []],
  )
})

t.test('after a statement that rolls the group back, no other one of it is stored', async (t) => {
  const { engine, read } = await openBoth(t)
  const fatal: Prepared<Row, never> = { ...insert, sql: insert.sql.replace('insert', 'insert or rollback') }
  const written = await Promise.allSettled([
    engine.write(insert, { name: 'c', applied_at: 1 }, 'c'),
    engine.write(fatal, { name: 'a', applied_at: 9 }, 'a'),
    engine.write(update, { name: 'b', applied_at: 2 }, 'b'),
  ])
  for (const outcome of written)
    t.match(outcome, { status: 'rejected', reason: { code: 'SQLITE_CONSTRAINT_PRIMARYKEY' } })
  const rows = await Promise.all(['a', 'b', 'c'].map(read))
  t.same(rows.flat(), [{ applied_at: 1 }, { applied_at: 1 }])
})

t.test('closing waits for writes that wait for another process', async (t) => {
  const { file, connection } = createDatabase(t)
  const engine = await openSqlite(file)
  connection.raw.exec('begin immediate')
  const written = engine.write(update, { name: 'a', applied_at: 2 }, 'a')
  await setImmediate()
  const closed = engine.close()
  await setTimeout(50)
  connection.raw.exec('commit')
  await written
  await closed
  t.same(connection.all(select, { name: 'a' }), [{ applied_at: 2 }])
})

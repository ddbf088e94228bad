import assert from 'node:assert/strict'
import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import { Client } from 'pg'
import tap, { type Test } from 'tap'
import { prepare } from '../../../src/store/prepared.ts'
import { openStore, type StoreOptions } from '../../../src/store/store.ts'
import { asAdministrator } from '../../helpers/changes.ts'
import { execute, openTestStore, postgres } from '../../helpers/databases.ts'
import { createRandom } from '../../helpers/random.ts'
import { openTcpProxy } from '../../helpers/tcp-proxy.ts'
import { until } from '../../helpers/until.ts'

// Most of these tests only wait, and each has its own database.
tap.jobs = 4
const test = (name: string, work: (t: Test) => Promise<void>) => tap.test(name, { buffered: true }, work)

const AWAY = { name: 'StoreUnavailable' }
const shaOf = (index: number) => String(index).padStart(40, '0')
const range = (count: number) => Array.from({ length: count }, (_, index) => index)

async function setUp(t: Test, options: Partial<StoreOptions> = {}) {
  const { store, options: used } = await openTestStore(t, postgres, { poolSize: 10, ...options })
  const repository = { owner: 'acme', name: 'rocket', visibility: 'public', objectFormat: 'sha1' } as const
  const { id: repositoryId } = await asAdministrator(store).repositories.create(repository)
  const url = used.databaseUrl ?? assert.fail()
  const batches: number[] = []
  store.engine.observeBatches?.((waits) => batches.push(waits.length))
  const report = (commit: number, context = 'ci', description = '', by = store) =>
    by.statuses.report({ repositoryId, sha: shaOf(commit), context, state: 'success', description })
  const list = (commit: number, by = store) => by.statuses.list(repositoryId, shaOf(commit))
  return { store, options: used, url, repositoryId, batches, report, list }
}

/** Opens a connection that can hold locks. */
async function openClient(t: Test, url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  await client.connect()
  t.teardown(() => client.end())
  return client
}

const BACKENDS = 'select from pg_stat_activity where datname = current_database()'

/** Records what is written to rows of statuses. */
const COUNT_WRITES = [
  'create table writes (sha text, context text)',
  `create or replace function count_write() returns trigger language plpgsql as $$ begin
    insert into writes values (new.sha, new.context); return new; end $$`,
  'create trigger count_write before insert or update on statuses for each row execute function count_write()',
]

test('calls of one turn are one statement, and each gets its own rows', async (t) => {
  const { report, list, batches } = await setUp(t)
  const contexts = ['b', 'a', 'B', 'é', '😀', '\uffff', 'a b']
  for (const commit of range(40))
    for (const context of contexts.slice(0, commit % 8)) await report(commit, context)
  batches.length = 0
  const all = await Promise.all(range(40).map((commit) => list(commit)))
  t.same(batches, [40])
  for (const [commit, rows] of all.entries()) {
    const expected = contexts
      .slice(0, commit % 8)
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    t.same(
      rows.map(({ context }) => context),
      expected,
      'in the order of the statement',
    )
    t.ok(rows.every(({ sha }) => sha === shaOf(commit)))
  }
  // Many more than a batch holds.
  const many = await Promise.all(range(200).map((index) => list(index % 40)))
  t.same(
    many,
    range(200).map((index) => all[index % 40]),
  )
  t.ok(batches.length < 10, `${batches}`)
  t.same(await list(3), all[3], 'a call without others returns the same')
})

test('reports of one turn are one statement, and each gets its own answer', async (t) => {
  const { report, list, batches, store } = await setUp(t, { maxContexts: 3, statementTimeout: false })
  const first = await Promise.all(range(50).map((index) => report(index, 'ci', `${index}`)))
  t.same(batches, [50])
  const again = await Promise.all(range(50).map((index) => report(49 - index, 'ci', 'again')))
  t.same(
    again.map((row) => row?.id),
    first.map((row) => row?.id).reverse(),
  )
  // The limit of contexts is exact, and concerns the report that is over it.
  const results = await Promise.allSettled(range(6).map((index) => report(7, `new ${index}`)))
  const names = results.map((result) => (result.status === 'rejected' ? result.reason.name : 'stored'))
  t.same(names, ['stored', 'stored', ...Array.from({ length: 4 }, () => 'ServiceError')])
  t.equal((await list(7)).length, 3)
  t.equal(
    await store.statuses.report({ repositoryId: 999, sha: shaOf(1), context: 'ci', state: 'error' }),
    undefined,
  )
})

test('calls with an array are made alone', async (t) => {
  const { store } = await setUp(t)
  const byNames = prepare<{ names: string[] }>()((p) =>
    store.engine.kysely.selectFrom('repositories').select('name').where(sql<boolean>`name = any(${p.names})`),
  )
  const read = (names: string[]) => store.engine.read(byNames, { names })
  const results = await Promise.all([read(['rocket', 'x']), read(['x']), read([]), read(['rocket'])])
  t.same(results, [[{ name: 'rocket' }], [], [], [{ name: 'rocket' }]])
})

test('a commit with many contexts is read alone, and not again for others', async (t) => {
  const { url, list, report, repositoryId, batches } = await setUp(t)
  for (const commit of range(20)) await report(commit)
  await execute(
    url,
    `insert into statuses (repository_id, sha, context, id, state, created_at, updated_at)
      select ${repositoryId}, '${shaOf(99)}', 'context ' || lpad(n::text, 4, '0'), n::text, 'success', 1, 1
      from generate_series(1, 1000) as n`,
  )
  const readAll = () => Promise.all([list(0), list(99), ...range(20).map((commit) => list(commit))])
  const began = performance.now()
  for (const round of ['first', 'again']) {
    batches.length = 0
    const reading = readAll()
    // On a slow machine the second for which the commit is apart may be over.
    const isApart = round === 'again' && performance.now() - began < 900
    const [, large = [], ...others] = await reading
    t.same(
      large.map(({ context }) => context),
      range(1000).map((n) => `context ${String(n + 1).padStart(4, '0')}`),
      round,
    )
    for (const rows of others) t.equal(rows.length, 1)
    const sizes = batches.toSorted((a, b) => a - b)
    if (round === 'first') t.same(sizes, [1, 22])
    else if (isApart) t.same(sizes, [1, 21])
  }
})

test('a batch has few rows, however many each of its calls has', async (t) => {
  const { url, list, report, repositoryId, batches } = await setUp(t)
  await report(0)
  const contexts = (commit: number) => (commit % 3 === 0 ? 1 : 40)
  for (const commit of range(64))
    await execute(
      url,
      `insert into statuses (repository_id, sha, context, id, state, created_at, updated_at)
        select ${repositoryId}, '${shaOf(100 + commit)}', 'context ' || lpad(n::text, 2, '0'), n::text, 'success', 1, 1
        from generate_series(1, ${contexts(commit)}) as n`,
    )
  const readAll = () => Promise.all(range(64).map((commit) => list(100 + commit)))
  for (const round of ['first', 'again']) {
    batches.length = 0
    for (const [commit, rows] of (await readAll()).entries())
      t.same(
        rows.map(({ context }) => context),
        range(contexts(commit)).map((n) => `context ${String(n + 1).padStart(2, '0')}`),
        round,
      )
    // Two of three have 40 rows, so 18 of them have 500.
    if (round === 'first') t.equal(batches[0], 64)
    t.ok(Math.max(...batches.slice(1)) < 40 && batches.length < 12, `${round}: ${batches}`)
  }
  t.comment(`calls of batches: ${batches}`)
  await report(0)
  for (const _ of range(60)) await Promise.all(range(64).map(() => list(0)))
  batches.length = 0
  await Promise.all(range(64).map(() => list(0)))
  t.same(batches, [64], 'as many calls as before, later')
})

test("a call's error is its own, and the others are stored once", async (t) => {
  const { url, report, list, batches } = await setUp(t)
  await execute(
    url,
    ...COUNT_WRITES,
    `create function refuse() returns trigger language plpgsql as $$ begin
      if new.context = 'bad' then raise exception 'refused' using errcode = '23514'; end if; return new; end $$`,
    'create trigger refuse before insert or update on statuses for each row execute function refuse()',
  )
  const results = await Promise.allSettled(
    range(40).map((index) => report(index, index === 20 ? 'bad' : 'ci')),
  )
  t.same(
    results.flatMap(({ status }, index) => (status === 'rejected' ? [index] : [])),
    [20],
  )
  t.equal(batches[0], 40)
  for (const index of range(40)) t.equal((await list(index)).length, index === 20 ? 0 : 1)
  t.same(
    await execute(url, 'select count(*)::int as rows, count(distinct context)::int as contexts from writes'),
    [{ rows: 39, contexts: 1 }],
  )

  // The commit whose report failed is apart for a second, so that it does not make others wait again.
  await Promise.allSettled([report(20, 'bad')])
  const since = performance.now()
  batches.length = 0
  const again = Promise.allSettled(range(40).map((index) => report(index, index === 20 ? 'bad' : 'ci')))
  // On a slow machine the second may be over.
  const isApart = performance.now() - since < 900
  await again
  if (isApart)
    t.same(
      batches.toSorted((a, b) => a - b),
      [1, 39],
    )
  await setTimeout(1_100)
  batches.length = 0
  await Promise.all(range(40).map((index) => report(index)))
  t.same(batches, [40], 'and with the others again later')
})

test('a report whose time is almost up does not undo others', async (t) => {
  const { report, list, repositoryId, store, batches } = await setUp(t)
  const late = (left: number) =>
    store.statuses.report({
      ...{ repositoryId, sha: shaOf(50 + left), context: 'ci', state: 'success' },
      storedBy: performance.now() + left,
    })
  for (const left of [-1, 50]) {
    batches.length = 0
    const results = await Promise.allSettled([...range(20).map((index) => report(index)), late(left)])
    const [last] = results.splice(20)
    t.ok(results.every(({ status }) => status === 'fulfilled'))
    if (left < 0) t.match(last, { reason: { name: 'WrittenTooLate' } })
    t.same(
      batches.toSorted((a, b) => a - b),
      [1, 20],
      `${left} ms`,
    )
  }
  // Nor does a later report of its row overtake it.
  await Promise.allSettled([late(90), ...[140, 0, 1].map((index) => report(index, 'ci', 'later'))])
  for (const index of [140, 0]) t.match(await list(index), [{ description: 'later' }])
})

test('reports that wait for locks do not make others wait', async (t) => {
  const { url, report, list } = await setUp(t, { statementTimeout: false })
  await Promise.all(range(64).map((index) => report(index)))
  const client = await openClient(t, url)
  // Otherwise others that wait would do so without end.
  await client.query("set idle_in_transaction_session_timeout = '1min'")
  await client.query('begin')
  // Of more commits than there are connections for writes.
  const locked = range(12)
  await client.query('select from statuses where sha = any($1) for update', [locked.map(shaOf)])
  const waits: number[] = []
  const timed = async (index: number) => {
    const began = performance.now()
    await report(index, 'ci', 'later')
    waits.push(performance.now() - began)
  }
  const waiting = Promise.all(locked.map((index) => report(index, 'ci', 'waits')))
  await Promise.all(range(52).map((index) => timed(12 + index)))
  const first = Math.max(...waits.splice(0))
  // Also those that come while the others still wait.
  for (const round of range(3)) {
    await Promise.all(range(52).map((index) => timed(12 + index)))
    t.equal((await list(12 + round))[0]?.description, 'later')
  }
  t.comment(
    `others waited for ${Math.round(first)} ms, and later ones for ${Math.round(Math.max(...waits))} ms`,
  )
  // All others were stored while the locks were held.
  await client.query('rollback')
  await waiting
  for (const index of locked) t.equal((await list(index))[0]?.description, 'waits')
})

test('a commit whose report has waited for a lock for long is apart for a second', async (t) => {
  const { url, report, batches } = await setUp(t, { statementTimeout: false })
  await Promise.all(range(10).map((index) => report(index)))
  const client = await openClient(t, url)
  await client.query('begin')
  await client.query('select from statuses where sha = $1 for update', [shaOf(0)])
  const waiting = report(0)
  await until(async () => (await execute(url, `${BACKENDS} and wait_event_type = 'Lock'`)).length > 0)
  // A second after its lock timeout, it is no longer apart for that.
  await setTimeout(1_500)
  await client.query('rollback')
  await waiting
  batches.length = 0
  await Promise.all(range(10).map((index) => report(index)))
  t.same(
    batches.toSorted((a, b) => a - b),
    [1, 9],
  )
})

test('a report waits for a lock for four seconds from its arrival', async (t) => {
  const { url, report } = await setUp(t)
  await report(0)
  const client = await openClient(t, url)
  await client.query('begin')
  await client.query('select from statuses for update')
  const began = performance.now()
  const ends: number[] = []
  const durations = range(8).map(async (index) => {
    await setTimeout(index * 500)
    const since = performance.now()
    await t.rejects(report(0, 'ci', 'x'), AWAY)
    const now = performance.now()
    ends.push(now)
    return now - since
  })
  for (const duration of await Promise.all(durations))
    t.ok(duration > 3_000 && duration < 12_000, `${duration} ms`)
  t.ok(performance.now() - began < 25_000, 'not one after the other')
  t.ok(Math.max(...ends) - Number(ends[1]) > 300, 'nor all at once')
  await client.query('rollback')
  t.match(await report(0), { context: 'ci' })
})

test('reports of one row are stored in order of arrival, together, alone and while one waits', async (t) => {
  const { url, report, list } = await setUp(t, { statementTimeout: false })
  await report(0)
  const client = await openClient(t, url)
  for (const isLocked of [false, true]) {
    await client.query('begin')
    if (isLocked) await client.query('select from statuses for update')
    const reports = []
    for (const round of range(12)) {
      for (const index of range(5)) reports.push(report(index, 'ci', `${round}/${index}`))
      // Some join a batch, some come while one is under way, some are suspected.
      await setTimeout(round % 3 === 0 ? 0 : 40)
      for (const index of range(5)) reports.push(report(index, 'ci', `${round}/${index} again`))
    }
    await client.query('rollback')
    await Promise.all(reports)
    for (const index of range(5)) t.equal((await list(index))[0]?.description, `11/${index} again`)
  }
})

test('a report does not overtake one of its row that was apart', async (t) => {
  const { url, report, list } = await setUp(t, { statementTimeout: false })
  await report(0)
  const client = await openClient(t, url)
  await client.query('begin')
  await client.query('select from statuses for update')
  const reports = []
  // The second comes before the first one has waited for long, and the last one a second after that.
  for (const [index, pause] of [100, 400, 1_000, 100].entries()) {
    reports.push(report(0, 'ci', `${index}`))
    await setTimeout(pause)
  }
  await client.query('rollback')
  await Promise.all(reports)
  t.match(await list(0), [{ description: '3' }])
})

/** Makes reports with the description "slow" take 20 s, or until `RELEASE`. They wait for no lock. */
const SLOW_WRITES = [
  'create table released ()',
  `create function sleep() returns trigger language plpgsql as $$ begin
    for step in 1..case when new.description = 'slow' then 400 else 0 end loop
      exit when exists (select from released);
      perform pg_sleep(0.05);
    end loop;
    return new; end $$`,
  'create trigger sleep before insert or update on statuses for each row execute function sleep()',
]
const RELEASE = 'insert into released default values'
const untilSleeping = (client: Client) =>
  until(async () => (await client.query(`${BACKENDS} and wait_event = 'PgSleep'`)).rowCount !== 0)

test('batches that are slow do not make others wait', async (t) => {
  const { url, report } = await setUp(t, { statementTimeout: false })
  await Promise.all(range(20).map((index) => report(index)))
  await execute(url, ...SLOW_WRITES)
  const slow: Promise<unknown>[] = []
  let isSlowDone = false
  // As many batches as may be under way.
  for (const batch of range(2)) {
    for (const index of range(4)) slow.push(report(4 * batch + index, 'ci', index === 0 ? 'slow' : ''))
    await setTimeout(0)
  }
  const done = Promise.allSettled(slow)
  void Promise.race(slow)
    .catch(() => {})
    .finally(() => {
      isSlowDone = true
    })
  await Promise.all(range(8).map((index) => report(12 + index)))
  t.notOk(isSlowDone)
  await execute(url, RELEASE)
  await done
})

test('a call is refused when too many wait', async (t) => {
  const { url, list, report } = await setUp(t)
  await report(0)
  const client = await openClient(t, url)
  await client.query('begin')
  await client.query('lock table statuses')
  const results = Promise.allSettled(range(5_010).map(() => list(0)))
  const reason = { ...AWAY, message: /too many calls of a read are waiting/ }
  for (const result of await Promise.allSettled(range(10).map(() => list(0))))
    t.match(result, { status: 'rejected', reason })
  await client.query('rollback')
  const kept = (await results).filter(({ status }) => status === 'fulfilled').length
  // Their time may be up on a slow machine.
  t.ok(kept <= 5_000, `${kept}`)
  t.equal((await list(0)).length, 1)
})

test('nothing is sent a second time after a connection is lost', async (t) => {
  const { url, report, list } = await setUp(t, { statementTimeout: false })
  await Promise.all(range(30).map((index) => report(index)))
  await execute(url, ...COUNT_WRITES, ...SLOW_WRITES)
  const client = await openClient(t, url)
  const results = Promise.allSettled(
    range(30).map((index) => report(index, 'ci', index === 29 ? 'slow' : 'lost')),
  )
  await untilSleeping(client)
  await client.query(
    `select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database()
      and pid <> pg_backend_pid()`,
  )
  for (const result of await results) t.match(result, { status: 'rejected', reason: AWAY })
  await setTimeout(500)
  t.same(await execute(url, 'select * from writes'), [])
  for (const index of range(30)) t.match(await list(index), [{ description: '' }])
})

test('nothing is sent a second time after no answer came, whatever was stored', async (t) => {
  const direct = await setUp(t)
  const proxy = await openTcpProxy(t, direct.url)
  const store = await openStore({ ...direct.options, databaseUrl: proxy.url })
  t.teardown(() => store.close())
  const report = (index: number, description = '') => direct.report(index, 'ci', description, store)
  await Promise.all(range(30).map((index) => report(index)))
  await execute(direct.url, ...COUNT_WRITES, ...SLOW_WRITES)
  const client = await openClient(t, direct.url)
  const began = performance.now()
  const early = Promise.allSettled(range(30).map((index) => report(index, index === 29 ? 'slow' : 'early')))
  await untilSleeping(client)
  proxy.freeze()
  await client.query(RELEASE)
  const late = setTimeout(1_500).then(() => Promise.allSettled(range(30).map((index) => report(index + 30))))
  for (const result of await early) t.match(result, { status: 'rejected', reason: AWAY })
  t.ok(performance.now() - began < 20_000)
  await late
  t.ok(performance.now() - began < 20_000, 'also for those that came while the first ones waited')
  await setTimeout(500)
  const writes = 'select sha, count(*)::int from writes group by sha'
  t.same(await execute(direct.url, `${writes} having count(*) > 1`), [], 'nothing is sent twice')
  t.ok((await execute(direct.url, writes)).length >= 30, 'what had no answer is stored')
})

test('all calls that wait for a connection are counted as waiting', async (t) => {
  const { store, list } = await setUp(t, { poolSize: 1 })
  const waiting = await store.engine.kysely.transaction().execute(async (db) => {
    await sql`select`.execute(db)
    const reads = range(20).map((commit) => list(commit))
    await setTimeout(50)
    return { reads, count: store.pool()?.waiting }
  })
  t.equal(waiting.count, 20)
  await Promise.all(waiting.reads)
  t.match(store.pool(), { waiting: 0, open: 1, idle: 1 })
})

test('a batch takes the locks of commits in the order of their numbers, however PostgreSQL plans it', async (t) => {
  const { url, options, repositoryId } = await setUp(t)
  // Otherwise commits that differ are found by sorting, which happens to be the order.
  await execute(url, `alter database ${new URL(url).pathname.slice(1)} set enable_sort = off`)
  const store = await openStore(options)
  t.teardown(() => store.close())
  const commits = range(20)
  const client = await openClient(t, url)
  const { rows } = await client.query<{ lock: string }>(
    'select hashtextextended(sha, $1)::text as lock from unnest($2::text[]) as sha order by hashtextextended(sha, $1)',
    [repositoryId, commits.map(shaOf)],
  )
  const locks = rows.map(({ lock }) => lock)
  const locksOfWaiting = async () => {
    const { rows } = await client.query<{ lock: string }>(
      `with locks as materialized (select * from pg_locks where locktype = 'advisory'
          and database = (select oid from pg_database where datname = current_database()))
        select ((classid::bigint << 32) | objid::bigint)::text as lock from locks
        where granted and pid in (select pid from locks where not granted)
        order by (classid::bigint << 32) | objid::bigint`,
    )
    return rows.map(({ lock }) => lock)
  }
  let taken: string[] = []
  // The batch waits for 250 ms, which a slow machine may miss. Then its commit is apart for a second.
  for (let attempt = 0; attempt < 10 && taken.length === 0; attempt++) {
    await client.query('begin')
    await client.query('select pg_advisory_xact_lock($1)', [locks[10]])
    const reports = Promise.allSettled(
      commits.map((commit) =>
        store.statuses.report({ repositoryId, sha: shaOf(commit), context: `${attempt}`, state: 'success' }),
      ),
    )
    const since = performance.now()
    while (taken.length === 0 && performance.now() - since < 1_000) taken = await locksOfWaiting()
    await client.query('rollback')
    await reports
    if (taken.length === 0) await setTimeout(1_100)
  }
  t.same(taken, locks.slice(0, 10))
})

/** Batches of each store. `npm run soak -- deadlocks` sends more. */
const ROUNDS = Number(process.env.DEADLOCK_ROUNDS ?? 60)

test('batches of several instances on one commit never deadlock', async (t) => {
  const { url, options, report, list, store } = await setUp(t, { statementTimeout: false })
  // Otherwise a wait for a lock would end before a deadlock is found.
  await execute(url, `alter database ${new URL(url).pathname.slice(1)} set deadlock_timeout = '20ms'`)
  const others = await Promise.all(range(2).map(() => openStore({ ...options, poolSize: 10 })))
  t.teardown(() => Promise.all(others.map((other) => other.close())))
  let [calls, statements, sent] = [0, 0, 0]
  const instances = [store, ...others]
  for (const { engine } of instances)
    engine.observeBatches?.((waits) => {
      statements++
      sent += waits.length
    })
  const random = createRandom(1)
  await Promise.all(
    instances.map(async (instance) => {
      for (const round of range(ROUNDS)) {
        // The first rounds on a commit find few contexts, the later ones nearly all. The contexts of
        // two other commits are as many.
        const commit = Math.floor(round / 5)
        const contexts = range(30).map(() => [commit + random.below(3), random.below(60)] as const)
        calls += contexts.length
        await Promise.all(contexts.map(([on, context]) => report(on, `ci/${context}`, `${round}`, instance)))
      }
    }),
  )
  const [row] = await execute(
    url,
    'select deadlocks::int from pg_stat_database where datname = current_database()',
  )
  t.same(row, { deadlocks: 0 })
  t.comment(
    `${statements} statements for ${calls} reports, ${sent - calls} sent again after a wait for a lock`,
  )
  const stored = await list(1)
  t.ok(stored.length > 50)
})

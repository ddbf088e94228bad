import assert from 'node:assert/strict'
import { setTimeout } from 'node:timers/promises'
import tap from 'tap'
import { execute, type TestDatabase } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { type PostgresServer, startPostgres } from '../helpers/postgres-server.ts'
import { startServer } from '../helpers/server.ts'
import { openTcpProxy } from '../helpers/tcp-proxy.ts'
import { recordEvidence } from './parts/evidence.ts'
import { startLoad } from './parts/load.ts'

/**
 * Three instances on a PostgreSQL server with a standby, under load. The standby is promoted after
 * the primary has crashed, was cut off, or was shut down, and gets a standby of its own for the
 * next round. Both settings of `synchronous_commit` are those that the operator's guide names.
 */
const ROUNDS = [
  { primary: 'crashes', commit: 'on' },
  // It goes on running, and instances that are connected to it stay so.
  { primary: 'is cut off', commit: 'on' },
  { primary: 'crashes', commit: 'remote_apply' },
  { primary: 'is cut off', commit: 'remote_apply' },
  { primary: 'is shut down', commit: 'on' },
] as const
const WRITERS = 8
const COMMITS = 100
/** Milliseconds of load before each outage. */
const LOAD = 3_000
/** Milliseconds. The server gives up a statement after 4 s. */
const RECOVERY = 15_000

tap.setTimeout(600_000)

/**
 * Makes the primary wait for the standby with each commit, and waits until the standby has all that
 * it did not wait for.
 */
async function makeSynchronous(primary: PostgresServer, commit: string): Promise<void> {
  await execute(
    primary.url,
    `alter system set synchronous_commit = '${commit}'`,
    `alter system set synchronous_standby_names = '*'`,
    'select pg_reload_conf()',
  )
  await until(primary.url, `select from pg_stat_replication where sync_state = 'sync'`)
  const [row] = await execute(primary.url, 'select pg_current_wal_flush_lsn() as lsn')
  await until(primary.url, `select from pg_stat_replication where flush_lsn >= '${row?.lsn}'`)
}

/** Waits until a query gives a row. */
async function until(url: string, query: string): Promise<void> {
  while ((await execute(url, query)).length === 0) await setTimeout(50)
}

tap.test('no acknowledged report is lost when a standby is promoted', async (t) => {
  let primary = await startPostgres()
  t.teardown(() => primary.stop())
  // Leads to the primary, as a proxy or a virtual IP does.
  const address = await openTcpProxy(t, primary.url)
  const database: TestDatabase = {
    name: 'PostgreSQL',
    create: async () => ({ dataDir: t.testdir(), databaseUrl: address.url }),
  }
  const { options, ...admin } = await startServer(t, { database })
  const token = await admin.createToken('acme')
  const { commits } = await admin.createRepository('acme/repo', { commits: COMMITS })
  const [sha = ''] = commits
  const instances = await Promise.all([0, 1, 2].map(() => startInstance(t, options)))

  const acknowledged = new Set<string>()
  // A new context each time, so that each acknowledged report can be looked for.
  const load = startLoad(WRITERS, async (worker, index) => {
    const instance = instances[index % instances.length]
    assert(instance)
    const context = `${worker}/${index}`
    const commit = commits[index % COMMITS] ?? ''
    const { status } = await instance.report('acme/repo', commit, { state: 'success', context }, token)
    if (status === 201) acknowledged.add(context)
    return status
  })

  for (const { primary: outage, commit } of ROUNDS) {
    const standby = await primary.startStandby()
    await makeSynchronous(primary, commit)
    await setTimeout(LOAD)
    const began = performance.now()
    const before = acknowledged.size
    if (outage !== 'is cut off') await primary.end(outage === 'crashes' ? 'crash' : 'shutdown')
    await execute(standby.url, 'select pg_promote()')
    address.leadTo(standby.url)
    const probe = { state: 'success', context: 'probe' }
    for (const { report } of instances) while ((await report('acme/repo', sha, probe, token)).status !== 201);
    const recovery = performance.now() - began
    // Connections of the load to a primary that was cut off have ended by now.
    await setTimeout(5_000)
    const expected = [...acknowledged]
    const stored = new Set(
      (await execute(standby.url, 'select context from statuses')).map(({ context }) => context),
    )
    const lost = expected.filter((context) => !stored.has(context))
    t.same(lost, [], `the primary ${outage}, synchronous_commit = ${commit}: nothing acknowledged is lost`)
    t.ok(
      expected.length > before,
      `${before} reports were acknowledged before, ${expected.length - before} after`,
    )
    t.ok(recovery < RECOVERY, `reports are stored again after ${Math.round(recovery)} ms`)
    await primary.end('crash')
    await primary.stop()
    primary = standby
  }
  await load.stop()

  t.comment(`answers by status: ${JSON.stringify(load.answers)}`)
  t.same(
    Object.keys(load.answers).filter((status) => !['201', '503'].includes(status)),
    [],
  )
  if (t.counts.fail > 0) return
  recordEvidence(
    'standby',
    'the primary of PostgreSQL crashed, was cut off or was shut down, and its standby was promoted',
    `${ROUNDS.length} promotions: none of ${acknowledged.size} acknowledged reports was lost`,
  )
})

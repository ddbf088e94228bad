import { renameSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import t from 'tap'
import { buildApp } from '../../src/app.ts'
import { ADMINISTRATOR } from '../../src/domain/actors.ts'
import { CommitLookup } from '../../src/git/objects/commit-lookup.ts'
import { openSpool } from '../../src/git-http/spool.ts'
import { type AuditEvent, BACKUP } from '../../src/store/audit/audit.ts'
import { openStore } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { createPostgresDatabase, execute, temporaryFolder } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { recordLog } from '../helpers/log.ts'
import { startServer } from '../helpers/server.ts'

const LONG_TOKEN = 'a-metrics-token-of-32-characters'
/** One character shorter than a long one. */
const TOKEN = LONG_TOKEN.slice(1)
const MISSING_SHA = '0'.repeat(40)

/** Parses Prometheus's text format: samples by name and labels. */
function samplesOf(text: string): Map<string, number> {
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]))
}

t.test('without a token the page does not exist', async (t) => {
  const server = await startServer(t)
  const answer = await server.call('GET', '/metrics', { token: 'anything' })
  t.equal(answer.status, 404)
  t.match(answer.json.error, /path does not exist/)
})

t.test('counts requests, reports and failures', async (t) => {
  const server = await startServer(t, { metricsToken: TOKEN, budget: { limit: 3, window: 60 } })
  const { commits } = await server.createRepository('alice/rocket')
  const [sha = ''] = commits
  const token = await server.createToken('alice')
  await server.report('alice/rocket', sha, { state: 'pending' }, token)
  await server.report('alice/rocket', sha, { state: 'success' }, token)
  await server.report('alice/rocket', sha, { state: 'success', context: 'other' }, token)
  await server.read('alice/rocket', sha)
  await server.read('alice/rocket', MISSING_SHA)
  await server.call('GET', '/no/such/path')
  await server.call('GET', '/login')
  await server.call('GET', '/alice/rocket.git/info/refs?service=git-upload-pack')
  await server.call('GET', '/alice/rocket.git/info/refs')
  await server.call('GET', '/alice/rocket.git/info/lfs/locks')

  const answer = await server.call('GET', '/metrics', { token: TOKEN })
  t.equal(answer.status, 200)
  t.match(answer.headers.get('content-type'), /^text\/plain; version=0\.0\.4/)
  t.equal(answer.headers.get('cache-control'), 'no-store')
  const samples = samplesOf(answer.body)
  const requests = (operation: string, status: number) =>
    samples.get(`commit_status_request_duration_seconds_count{operation="${operation}",status="${status}"}`)
  t.equal(requests('reportStatus', 201), 3)
  t.equal(requests('listStatuses', 200), 1)
  t.equal(requests('listStatuses', 404), 1)
  t.equal(requests('unknown', 404), 1)
  t.equal(requests('GET /login', 200), 1)
  t.equal(requests('git-upload-pack refs', 200), 1)
  t.equal(requests('git refs', 400), 1)
  t.equal(requests('git-lfs', 501), 1)
  t.equal(samples.get('commit_status_server_errors_total'), 0, 'no server is at fault for 501')
  for (const service of ['git-upload-pack', 'git-receive-pack'])
    for (const state of ['running', 'waiting'])
      t.equal(samples.get(`commit_status_git_requests{service="${service}",state="${state}"}`), 0)
  for (const content of ['pushes', 'answers'])
    t.equal(samples.get(`commit_status_spool_bytes{content="${content}"}`), 0)
  const latency = samples.get('commit_status_database_latency_seconds') ?? Number.NaN
  t.ok(latency > 0 && latency < 10, `${latency} s`)
  t.ok((samples.get('commit_status_disk_free_bytes') ?? 0) > 1_000_000)
  t.equal(samples.get('commit_status_reports_total{state="success"}'), 2)
  t.equal(samples.get('commit_status_reports_total{state="pending"}'), 1)
  t.equal(samples.get('commit_status_reports_total{state="error"}'), 0)
  t.equal(samples.get('commit_status_authentication_failures_total'), 0)
  t.equal(samples.get('commit_status_server_errors_total'), 0)
  t.equal(samples.get('commit_status_blocked_addresses'), 0)
  t.equal(samples.get('commit_status_lookup_processes'), 1)
  t.equal(samples.get('commit_status_backup_timestamp_seconds'), 0)
  t.equal(samples.get('commit_status_backup_incomplete'), 0)
  const { version } = JSON.parse(await readFile('package.json', 'utf8'))
  t.equal(samples.get(`commit_status_build_info{version="${version}"}`), 1)
  t.ok(samples.has('nodejs_eventloop_lag_p99_seconds'))
  t.notMatch(answer.body, /alice|rocket|127\.0\.0\.1/, 'no stored data')
})

t.test('has the time, size and duration of the latest complete backup', async (t) => {
  const server = await startServer(t, { metricsToken: TOKEN })
  const details = { repositories: 1, refs: 1, bytes: 4_096, seconds: 1.5 }
  const record = (event: AuditEvent) =>
    server.store.audit.transaction(ADMINISTRATOR, (change) => change.record(event))
  const event = { object: BACKUP } as const
  await record({ ...event, action: 'backup.completed', details })
  const { time = '' } = (await server.store.auditLog.latestBackup('backup.completed')) ?? {}
  await record({ ...event, action: 'backup.incomplete', details: { ...details, bytes: 1, problems: ['x'] } })
  const samples = samplesOf((await server.call('GET', '/metrics', { token: TOKEN })).body)
  t.equal(samples.get('commit_status_backup_timestamp_seconds'), Date.parse(time) / 1000)
  t.equal(samples.get('commit_status_backup_size_bytes'), 4_096)
  t.equal(samples.get('commit_status_backup_duration_seconds'), 1.5)
  t.equal(samples.get('commit_status_backup_incomplete'), 1)
  await record({ ...event, action: 'backup.completed', details })
  const later = samplesOf((await server.call('GET', '/metrics', { token: TOKEN })).body)
  t.equal(later.get('commit_status_backup_incomplete'), 0)
})

t.test('leaves out what a disk that is away would tell', async (t) => {
  const { logger, lines } = recordLog('warn')
  const { dataDir, call } = await startServer(t, { metricsToken: LONG_TOKEN, logger })
  renameSync(dataDir, `${dataDir}-away`)
  await call('GET', '/metrics', { token: LONG_TOKEN })
  const away = await call('GET', '/metrics', { token: LONG_TOKEN })
  renameSync(`${dataDir}-away`, dataDir)
  t.equal(away.status, 200)
  const samples = samplesOf(away.body)
  t.notOk(samples.has('commit_status_disk_free_bytes'))
  const logged = lines.filter((line) => line.includes('left out'))
  t.equal(logged.length, 1, 'says it once')
  t.match(JSON.parse(logged[0] ?? ''), { metric: 'commit_status_disk_free_bytes', err: { code: 'ENOENT' } })
  t.equal(samples.get('commit_status_server_errors_total'), 0)
})

t.test('a wrong token counts against the failure budget', async (t) => {
  const server = await startServer(t, { metricsToken: TOKEN, budget: { limit: 3, window: 60 } })
  const get = (headers: Record<string, string>) => server.call('GET', '/metrics', { headers })

  for (const authorization of ['', 'Bearer', 'Bearer ']) {
    const answer = await get({ authorization })
    t.equal(answer.status, 401, `"${authorization}" is 401`)
    t.equal(answer.headers.get('www-authenticate'), 'Bearer realm="metrics"')
  }
  t.equal(await server.store.failures.find('127.0.0.1'), null, 'not counted')
  for (const authorization of [`token ${TOKEN}`, `Bearer ${TOKEN}x`, `Bearer ${TOKEN.slice(1)}`]) {
    t.equal((await get({ authorization })).status, 401, 'counted')
  }
  const blocked = await get({ authorization: `Bearer ${TOKEN}` })
  t.equal(blocked.status, 429, 'the right one too')
  t.ok(Number(blocked.headers.get('retry-after')) >= 1)
  t.equal((await server.read('alice/rocket', MISSING_SHA, 'cst_x')).status, 429, 'one shared budget')

  await asAdministrator(server.store).failures.lift('127.0.0.1')
  const samples = samplesOf((await get({ authorization: `Bearer ${TOKEN}` })).body)
  t.equal(samples.get('commit_status_authentication_failures_total'), 3)
  t.equal(samples.get('commit_status_addresses_blocked_total'), 1)
})

t.test('of any number of concurrent tokens no more are compared than the budget allows', async (t) => {
  const server = await startServer(t, { metricsToken: TOKEN, budget: { limit: 3, window: 60 } })
  const statusOf = async (token: string) => (await server.call('GET', '/metrics', { token })).status
  const statuses = await Promise.all(Array.from({ length: 40 }, (_, index) => statusOf(`wrong-${index}`)))
  t.same(
    statuses.sort(),
    statuses.map((_, index) => (index < 3 ? 401 : 429)),
  )
  t.equal(await statusOf(TOKEN), 429)
})

t.test('the start warns of a short token, and of no other', async (t) => {
  for (const [metricsToken, warnings] of [
    [TOKEN, 1],
    [LONG_TOKEN, 0],
  ] as const) {
    const { logger, lines } = recordLog('warn')
    await startServer(t, { metricsToken, logger })
    t.equal(lines.filter((line) => /METRICS_TOKEN has fewer than 32 characters/.test(line)).length, warnings)
    t.notMatch(lines.join(''), metricsToken)
  }
})

t.test('a malformed credential is counted as one of this page', async (t) => {
  const server = await startServer(t, { metricsToken: TOKEN, budget: { limit: 1, window: 60 } })
  const headers = { authorization: 'Basic eDp5' }
  t.equal((await server.call('GET', '/metrics', { headers })).status, 401)
  t.match(await listEvents(server.store, {}), [{ action: 'address.blocked', details: { after: 'metrics' } }])
})

t.test('accepts any case of the scheme, and only GET', async (t) => {
  const server = await startServer(t, { metricsToken: TOKEN })
  const head = await server.call('HEAD', '/metrics', { headers: { authorization: `bearer ${TOKEN}` } })
  t.equal(head.status, 200)
  const post = await server.call('POST', '/metrics', { token: TOKEN })
  t.equal(post.status, 405)
  t.equal(post.headers.get('allow'), 'GET, HEAD')
})

t.test('a long token is served whatever the budget and the database are', async (t) => {
  const url = await createPostgresDatabase(t)
  const dataDir = temporaryFolder(t)
  const store = await openStore({ dataDir, databaseUrl: url, poolSize: 2 })
  const lookup = new CommitLookup()
  const spool = await openSpool(dataDir, 0)
  const budget = { limit: 2, window: 60 }
  const app = await buildApp({ store, lookup, spool, budget, metricsToken: LONG_TOKEN })
  t.teardown(async () => {
    await app.close()
    await store.close()
  })
  const get = (token: string) =>
    app.inject({ url: '/metrics', headers: { authorization: `Bearer ${token}` } })
  const statuses = await Promise.all(Array.from({ length: 8 }, async () => (await get('wrong')).statusCode))
  t.same(statuses.sort(), [401, 401, 429, 429, 429, 429, 429, 429], 'wrong ones count')
  const events: unknown[] = []
  for await (const lines of store.auditLog.list({})) events.push(...lines)
  t.match(events, [{ action: 'address.blocked', details: { after: 'metrics' } }])
  await Promise.all(Array.from({ length: 8 }, () => store.statuses.list(1, MISSING_SHA)))
  const blocked = await get(LONG_TOKEN)
  t.equal(blocked.statusCode, 200)
  const before = samplesOf(blocked.body)
  t.equal(before.get('commit_status_blocked_addresses'), 1)
  t.equal(before.get('commit_status_server_errors_total'), 0)
  t.equal(
    before.get('commit_status_request_duration_seconds_count{operation="reportStatus",status="201"}'),
    0,
  )
  t.equal(before.get('commit_status_database_connections{state="waiting"}'), 0, 'not its own queries')
  const calls = before.get('commit_status_database_batch_calls_sum') ?? 0
  t.ok(calls >= 8, `${calls} calls`)
  t.ok(
    Number(before.get('commit_status_database_batch_calls_count')) < calls,
    'some of them shared a statement',
  )
  t.equal(before.get('commit_status_database_batch_wait_seconds_count'), calls)
  t.ok(Number(before.get('commit_status_database_batch_wait_seconds_sum')) > 0)

  const name = new URL(url).pathname.slice(1)
  const other = Object.assign(new URL(url), { pathname: 'postgres' }).href
  await execute(
    other,
    `alter database ${name} with allow_connections false`,
    `select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '${name}'`,
    `alter database ${name} rename to ${name}_away`,
  )
  const away = await get(LONG_TOKEN)
  t.equal(away.statusCode, 200)
  const after = samplesOf(away.body)
  t.ok(after.has('commit_status_disk_free_bytes'))
  for (const name of ['blocked_addresses', 'backup_timestamp_seconds', 'database_latency_seconds'])
    t.notOk(after.has(`commit_status_${name}`), `${name} is left out`)
  t.equal((await get('wrong')).statusCode, 401)
  await app.inject('/readyz')
  t.equal(samplesOf((await get(LONG_TOKEN)).body).get('commit_status_server_errors_total'), 1)
  await execute(
    other,
    `alter database ${name}_away rename to ${name}`,
    `alter database ${name} with allow_connections true`,
  )
})

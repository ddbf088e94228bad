import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import tap from 'tap'
import { version } from '../../src/runtime.ts'
import { list, object, text } from '../contract/json.ts'
import { codeBlock, readDocument } from '../docs/machine.ts'
import { basic } from '../git-http/client.ts'
import { runCli } from '../helpers/cli.ts'
import { createPostgresDatabase, execute, type TestDatabase, temporaryFolder } from '../helpers/databases.ts'
import { freePort, listenLocally } from '../helpers/free-port.ts'
import { startInstance } from '../helpers/instance.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { requireProgram } from './parts/programs.ts'
import { fill, MIB, mount } from './parts/small-disk.ts'

/**
 * Two instances on PostgreSQL, under load, that a real Prometheus reads with the configuration and
 * the alerts of the operator's guide: `npm run soak -- monitoring`. Each query of the Grafana
 * dashboard must have an answer. Each alert must fire for its cause, after a fresh start, and be
 * resolved once the cause is gone. So that this takes seconds, durations are shorter here than in
 * the guide, and the disk is small. `promtool` checks the metrics. Wants to be root.
 */
const SECONDS = 30
const TOKEN = 'metrics-token-of-this-soak-for-prometheus'
/** Seconds within which an alert must fire, and be resolved. */
const PATIENCE = 60
const guide = readDocument('src/ops/README.md')
const stop = new AbortController()

tap.setTimeout(900_000)
requireProgram('promtool', 'prometheus')
await provideDatabases(tap)

/** Reports, reads, fetches and fails to authenticate until the soak ends. */
async function putLoad(url: string, commit: string, token: string): Promise<void> {
  for (let count = 0; !stop.signal.aborted; count++) {
    const api = `${url}/api/v1/repos/acme/rocket/statuses/${commit}`
    const headers = { authorization: basic('x', token) }
    const body = JSON.stringify({ state: 'success', context: `ci/${count % 5}` })
    const bearer = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const requests = [
      fetch(api, { method: 'POST', headers: bearer, body }),
      fetch(`${url}/api/v1/repos/acme/rocket/commits/${commit}/statuses`, { headers: bearer }),
      fetch(`${url}/acme/rocket.git/info/refs?service=git-upload-pack`, { headers }),
      fetch(`${url}/acme/rocket.git/info/refs?service=git-receive-pack`, { headers }),
    ]
    for (const answer of await Promise.all(requests)) await answer.arrayBuffer()
    await setTimeout(100)
  }
}

tap.test('Prometheus reads two instances on PostgreSQL', async (t) => {
  const folder = temporaryFolder(t)
  const disk = mount(t)
  const databaseUrl = await createPostgresDatabase(t)
  const database: TestDatabase = { name: 'PostgreSQL', create: async () => ({ dataDir: disk, databaseUrl }) }
  const { options, createRepository, createToken } = await startServer(t, { database })
  const { commits, path } = await createRepository('acme/rocket', { private: true, commits: 3 })
  const [commit = ''] = commits
  const token = await createToken('acme')
  const environment = {
    METRICS_TOKEN: TOKEN,
    LOG_LEVEL: 'fatal',
    AUTH_FAILURE_LIMIT: '1',
    TRUSTED_PROXIES: '127.0.0.1',
  }
  const servers = await Promise.all([0, 1].map(() => startInstance(t, options, environment)))
  const load = Promise.all(servers.map(({ url }) => putLoad(url, commit, token)))
  t.teardown(() => stop.abort())

  const [{ url } = assert.fail()] = servers
  const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } })
  const metrics = await answer.text()
  const own = metrics.split('\n').filter((line) => line.includes('commit_status_'))
  execFileSync('promtool', ['check', 'metrics'], { input: `${own.join('\n')}\n` })
  const names = new Set(own.map((line) => line.match(/commit_status_\w+/)?.[0]))
  t.comment(`promtool accepts the ${names.size} names of metrics`)

  // Stands for an instance of another version, and for one that is down.
  const third = { version }
  const standIn = createServer((_request, answer) => {
    answer.setHeader('content-type', 'text/plain; version=0.0.4')
    answer.end(`commit_status_build_info{version="${third.version}"} 1\ncommit_status_disk_free_bytes 1e12\n`)
  })
  const thirdPort = await listenLocally(standIn)
  t.teardown(() => standIn.close())
  const urls = [...servers.map(({ url }) => url), `http://127.0.0.1:${thirdPort}`]
  const targets = urls.map((url) => `'${new URL(url).host}'`).join(', ')
  const scrape = codeBlock(guide, 'scrape_configs:')
    .replace('/etc/prometheus/commit-status.token', join(folder, 'token'))
    .replace(/targets: .*/, `targets: [${targets}]`)
  writeFileSync(join(folder, 'token'), `${TOKEN}\n`)
  writeFileSync(join(folder, 'alerts.yml'), quick(codeBlock(guide, 'CommitStatusDown')))
  const config = `global: { scrape_interval: 1s, evaluation_interval: 1s }\nrule_files: [alerts.yml]\n${scrape}`
  writeFileSync(join(folder, 'prometheus.yml'), config)
  const check = ['check', 'config', join(folder, 'prometheus.yml')]
  t.comment(execFileSync('promtool', check, { encoding: 'utf8' }).trim())
  const port = await freePort()
  const settings = {
    'config.file': join(folder, 'prometheus.yml'),
    'storage.tsdb.path': join(folder, 'tsdb'),
    'web.listen-address': `127.0.0.1:${port}`,
    'log.level': 'error',
  }
  const args = Object.entries(settings).map(([name, value]) => `--${name}=${value}`)
  const prometheus = spawn('prometheus', args, { stdio: ['ignore', 'inherit', 'inherit'] })
  t.teardown(() => prometheus.kill())
  const ask = async (path: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`)
    return object(object(await answer.json(), path).data, path)
  }
  await until(async () => (await ask('query?query=up').catch(() => null)) !== null)
  await setTimeout(SECONDS * 1000)

  const dashboard = object(JSON.parse(readDocument('src/ops/grafana-dashboard.json')), 'the dashboard')
  for (const panel of list(dashboard.panels).map((panel) => object(panel, 'a panel')))
    for (const target of list(panel.targets)) {
      const expression = text(object(target, 'a target').expr, 'an expression')
      const query = expression.replaceAll('$__rate_interval', '15s')
      const { result } = await ask(`query?query=${encodeURIComponent(query)}`)
      const values = list(result).map((series) => Number(list(object(series, 'a series').value)[1]))
      t.ok(values.length > 0 && values.every((value) => !Number.isNaN(value)), `${query}: ${values}`)
      t.comment(`${panel.title}: ${values.length} series, for example ${values[0]}`)
    }
  const { groups } = await ask('rules')
  const rules = list(groups).flatMap((group) => list(object(group, 'a group').rules))
  for (const rule of rules) {
    const { name, health, state } = object(rule, 'a rule')
    t.equal(health, 'ok', `alert ${name}: ${state}`)
  }
  const { activeTargets } = await ask('targets')
  const health = list(activeTargets).map((target) => object(target, 'a target').health)
  t.same(health, ['up', 'up', 'up'])

  const isFiring = async (alert: string) => {
    const { alerts } = await ask('alerts')
    return list(alerts).some((each) => {
      const { labels, state } = object(each, 'an alert')
      return state === 'firing' && object(labels, 'labels').alertname === alert
    })
  }
  /** Returns the seconds until an alert fires, or no longer does. */
  const secondsUntil = async (alert: string, firing: boolean) => {
    const began = performance.now()
    while ((await isFiring(alert)) !== firing) {
      if (performance.now() - began > PATIENCE * 1000) return null
      await setTimeout(500)
    }
    return Math.round((performance.now() - began) / 1000)
  }
  const cli = (...args: string[]) => runCli(args, { DATA_DIR: disk, DATABASE_URL: databaseUrl })
  const backups = temporaryFolder(t)
  const brokenRef = join(path, 'refs/heads/broken')
  const name = new URL(databaseUrl).pathname.slice(1)
  const other = Object.assign(new URL(databaseUrl), { pathname: 'postgres' }).href
  const fail = async (host: number) => {
    const headers = { 'x-forwarded-for': `192.0.2.${host}`, authorization: 'Bearer wrong' }
    await (await fetch(`${url}/api/v1/repos/acme/rocket/commits/${commit}/statuses`, { headers })).text()
  }
  let makeRoom = () => {}

  type Step = () => unknown
  const incidents: Record<string, [cause: Step, remedy: Step]> = {
    // The first errors since the start.
    CommitStatusFailing: [
      () =>
        execute(
          other,
          `alter database ${name} with allow_connections false`,
          `select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '${name}'`,
          `alter database ${name} rename to ${name}_away`,
        ),
      async () => {
        const { result } = await ask('query?query=up')
        const values = list(result).map((series) => list(object(series, 'a series').value)[1])
        t.same(values, ['1', '1', '1'], 'Prometheus reads instances without a database')
        await execute(
          other,
          `alter database ${name}_away rename to ${name}`,
          `alter database ${name} with allow_connections true`,
        )
      },
    ],
    CommitStatusSlow: [
      async () => {
        const lock = 'begin; lock table statuses; select pg_sleep(2.5); commit'
        for (let count = 0; count < 4; count++) await execute(databaseUrl, lock)
      },
      () => {},
    ],
    CommitStatusOverloaded: [
      async () => {
        const [{ child } = assert.fail()] = servers
        // The event loop lags in several half seconds in a row, until a request arrives in them.
        const isShedding = async () => {
          const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } })
          return /^commit_status_requests_shed_total [1-9]/m.test(await answer.text())
        }
        for (let count = 0; count < 30 && !(count % 3 === 0 && (await isShedding())); count++) {
          child.kill('SIGSTOP')
          await setTimeout(3_000)
          child.kill('SIGCONT')
          await setTimeout(5)
        }
      },
      () => {},
    ],
    CommitStatusAddressBlocked: [() => fail(1), () => cli('blocked', 'lift', '192.0.2.1')],
    CommitStatusGuessing: [
      async () => {
        for (let host = 2; host < 14; host++) await fail(host)
      },
      () => {},
    ],
    CommitStatusDiskFull: [
      () => {
        makeRoom = fill(disk, 10 * MIB)
      },
      () => makeRoom(),
    ],
    // There is none yet.
    CommitStatusBackupOld: [() => {}, () => cli('backup', backups)],
    CommitStatusBackupIncomplete: [
      async () => {
        writeFileSync(brokenRef, '')
        t.match(await cli('backup', backups), { code: 1 })
      },
      async () => {
        rmSync(brokenRef)
        t.match(await cli('backup', backups), { code: 0 })
      },
    ],
    CommitStatusVersionsDiffer: [
      () => {
        third.version = '0.0.1'
      },
      () => {
        third.version = version
      },
    ],
    CommitStatusDown: [
      async () => {
        standIn.closeAllConnections()
        await new Promise((resolve) => standIn.close(resolve))
      },
      async () => {
        standIn.listen(thirdPort, '127.0.0.1')
        await once(standIn, 'listening')
      },
    ],
  }
  const alertNames = rules.map((rule) => text(object(rule, 'a rule').name, 'a name'))
  t.same(Object.keys(incidents).sort(), alertNames.sort(), 'each alert has its cause')
  for (const [alert, [cause, remedy]] of Object.entries(incidents)) {
    if (alert !== 'CommitStatusBackupOld')
      t.notOk(await isFiring(alert), `${alert} does not fire before its cause`)
    await cause()
    const fired = await secondsUntil(alert, true)
    await remedy()
    const resolved = await secondsUntil(alert, false)
    t.ok(
      fired !== null && resolved !== null,
      `${alert} fired after ${fired} s, and was resolved after ${resolved} s`,
    )
  }
  stop.abort()
  await load
})

/** Shortens the durations of alerts, for a small disk. */
function quick(alerts: string): string {
  const shorter = alerts.replace(/for: \w+/g, 'for: 1s').replaceAll(/\[(?:5m|1h)\]/g, '[15s]')
  return shorter.replace('< 5e9', `< ${20 * MIB}`)
}

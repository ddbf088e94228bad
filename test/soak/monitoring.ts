import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { openStore } from '../../src/store/store.ts'
import { list, object, text } from '../contract/json.ts'
import { freePort } from '../helpers/free-port.ts'
import { importCommits } from '../helpers/git.ts'
import { startPostgres } from '../helpers/postgres-server.ts'
import { until } from '../helpers/until.ts'
import { createOwnedRepository, type ServerProcess, startServerProcess } from './git-server.ts'
import { requireProgram } from './require-program.ts'

/**
 * Two instances on PostgreSQL, under load, that a real Prometheus reads with the configuration and the alerts of the operator's
 * guide: `npm run soak -- monitoring`. Each query of the Grafana dashboard must have an answer. `promtool` checks the metrics.
 */
const SECONDS = 30
const TOKEN = 'metrics-token-of-this-soak'
const root = resolve(import.meta.dirname, '../..')
const print = (line: string) => process.stdout.write(`${line}\n`)

requireProgram('promtool', 'prometheus')
const folder = mkdtempSync(join(tmpdir(), 'soak-monitoring-'))
const postgres = await startPostgres()
const options = { dataDir: join(folder, 'data'), databaseUrl: postgres.url }
mkdirSync(options.dataDir)
const servers: ServerProcess[] = []
const stop = new AbortController()
const port = await freePort()

/** Returns a block of the guide. */
function guide(text: string): string {
  const document = readFileSync(join(root, 'src/ops/README.md'), 'utf8')
  const found = [...document.matchAll(/```yaml\n([\s\S]*?)```/g)].find(([, code]) => code?.includes(text))
  return found?.[1] ?? assert.fail(text)
}

/** Reports, reads, fetches and fails to authenticate until the soak ends. */
async function putLoad(url: string, commit: string, authorization: string): Promise<void> {
  for (let count = 0; !stop.signal.aborted; count++) {
    const api = `${url}/api/v1/repos/acme/rocket/statuses/${commit}`
    const headers = { authorization, 'content-type': 'application/json' }
    const body = JSON.stringify({ state: 'success', context: `ci/${count % 5}` })
    const bearer = {
      ...headers,
      authorization: `Bearer ${Buffer.from(authorization.slice(6), 'base64').toString().slice(2)}`,
    }
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

try {
  const store = await openStore(options)
  const { repository, authorization } = await createOwnedRepository(store, 'acme', 'rocket')
  const [commit = ''] = importCommits(repository.path, 3)
  await store.close()
  const environment = { DATA_DIR: options.dataDir, DATABASE_URL: postgres.url, METRICS_TOKEN: TOKEN }
  for (let count = 0; count < 2; count++) servers.push(await startServerProcess(environment))
  const load = Promise.all(servers.map(({ url }) => putLoad(url, commit, authorization)))

  const [{ url } = assert.fail()] = servers
  const metrics = await (
    await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } })
  ).text()
  const own = metrics.split('\n').filter((line) => line.includes('commit_status_'))
  execFileSync('promtool', ['check', 'metrics'], { input: `${own.join('\n')}\n` })
  print(
    `promtool accepts the ${new Set(own.map((line) => line.match(/commit_status_\w+/)?.[0])).size} names of metrics`,
  )

  const targets = servers.map(({ url }) => `'${new URL(url).host}'`).join(', ')
  const scrape = guide('scrape_configs:')
    .replace('/etc/prometheus/commit-status.token', join(folder, 'token'))
    .replace(/targets: .*/, `targets: [${targets}]`)
  writeFileSync(join(folder, 'token'), `${TOKEN}\n`)
  writeFileSync(join(folder, 'alerts.yml'), guide('CommitStatusDown'))
  const config = `global: { scrape_interval: 1s }\nrule_files: [alerts.yml]\n${scrape}`
  writeFileSync(join(folder, 'prometheus.yml'), config)
  print(
    execFileSync('promtool', ['check', 'config', join(folder, 'prometheus.yml')], {
      encoding: 'utf8',
    }).trim(),
  )
  const prometheus = spawn(
    'prometheus',
    [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'tsdb')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=error',
    ],
    { stdio: ['ignore', 'inherit', 'inherit'] },
  )
  try {
    const ask = async (path: string) =>
      object(object(await (await fetch(`http://127.0.0.1:${port}/api/v1/${path}`)).json(), path).data, path)
    await until(async () => (await ask('query?query=up').catch(() => null)) !== null)
    await setTimeout(SECONDS * 1000)

    const dashboard = object(
      JSON.parse(readFileSync(join(root, 'src/ops/grafana-dashboard.json'), 'utf8')),
      'the dashboard',
    )
    for (const panel of list(dashboard.panels))
      for (const target of list(object(panel, 'a panel').targets)) {
        const query = text(object(target, 'a target').expr, 'an expression').replaceAll(
          '$__rate_interval',
          '15s',
        )
        const { result } = await ask(`query?query=${encodeURIComponent(query)}`)
        const values = list(result).map((series) => Number(list(object(series, 'a series').value)[1]))
        assert(values.length > 0 && values.every((value) => !Number.isNaN(value)), `${query}: ${values}`)
        print(
          `${text(object(panel, 'a panel').title, 'a title')}: ${values.length} series, for example ${values[0]}`,
        )
      }
    const { groups } = await ask('rules')
    const rules = list(groups).flatMap((group) => list(object(group, 'a group').rules))
    for (const rule of rules) {
      const { name, health, state } = object(rule, 'a rule')
      assert.equal(health, 'ok', text(name, 'a name'))
      print(`alert ${text(name, 'a name')}: ${text(state, 'a state')}`)
    }
    const { activeTargets } = await ask('targets')
    const health = list(activeTargets).map((target) => object(target, 'a target').health)
    assert.deepEqual(health, ['up', 'up'])
  } finally {
    prometheus.kill()
  }
  stop.abort()
  await load
} finally {
  stop.abort()
  for (const { child } of servers) child.kill('SIGTERM')
  await postgres.stop()
  rmSync(folder, { recursive: true, force: true })
}

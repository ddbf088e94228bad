import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import tap from 'tap'
import { list, object, text } from '../contract/json.ts'
import { codeBlock, readDocument } from '../docs/machine.ts'
import { basic } from '../git-http/client.ts'
import { postgres, temporaryFolder } from '../helpers/databases.ts'
import { freePort } from '../helpers/free-port.ts'
import { startInstance } from '../helpers/instance.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { requireProgram } from './parts/programs.ts'

/**
 * Two instances on PostgreSQL, under load, that a real Prometheus reads with the configuration and
 * the alerts of the operator's guide: `npm run soak -- monitoring`. Each query of the Grafana
 * dashboard must have an answer. `promtool` checks the metrics.
 */
const SECONDS = 30
const TOKEN = 'metrics-token-of-this-soak'
const guide = readDocument('src/ops/README.md')
const stop = new AbortController()

tap.setTimeout(300_000)
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
  const { options, createRepository, createToken } = await startServer(t, { database: postgres })
  const [commit = ''] = (await createRepository('acme/rocket', { private: true, commits: 3 })).commits
  const token = await createToken('acme')
  const environment = { METRICS_TOKEN: TOKEN, LOG_LEVEL: 'error' }
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

  const targets = servers.map(({ url }) => `'${new URL(url).host}'`).join(', ')
  const scrape = codeBlock(guide, 'scrape_configs:')
    .replace('/etc/prometheus/commit-status.token', join(folder, 'token'))
    .replace(/targets: .*/, `targets: [${targets}]`)
  writeFileSync(join(folder, 'token'), `${TOKEN}\n`)
  writeFileSync(join(folder, 'alerts.yml'), codeBlock(guide, 'CommitStatusDown'))
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
  t.same(health, ['up', 'up'])
  stop.abort()
  await load
})

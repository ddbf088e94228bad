import { chmodSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startServer } from '../../../../test/helpers/server.ts'
import { call } from '../helpers/command-line.ts'
import { privateCa, selfSigned, startHttps } from '../helpers/https.ts'
import { openWorkPlace } from '../helpers/working.ts'

const server = await startServer(t)
const place = await openWorkPlace(t, server, 'acme/rocket')
t.setTimeout(600_000)

t.test('what a worker may not do, it says at its start', async (t) => {
  const sha = place.push('main', 'echo started')
  const stranger = await server.createToken('stranger')
  const limited = await server.createToken('acme', { limits: { contexts: ['other'] } })
  const scopeless = await server.createToken('acme', { scopes: [] })
  const cases: [token: string, repository: string, stderr: RegExp][] = [
    ['nonsense', 'acme/rocket', /^commit-status: acme\/rocket: .*token.*\n$/],
    [scopeless, 'acme/rocket', /^commit-status: acme\/rocket: .*scope.*\n$/],
    [stranger, 'acme/rocket', /^commit-status: acme\/rocket: .*(?:read|write).*\n$/],
    [limited, 'acme/rocket', /^commit-status: acme\/rocket: .*context.*\n$/],
    [place.token, 'acme/missing', /^commit-status: acme\/missing: .*does not exist.*\n$/],
  ]
  for (const [token, repository, stderr] of cases) {
    const worker = place.work(['--repo', repository], { env: { COMMIT_STATUS_TOKEN: token } })
    t.match(await worker.finished, { code: 5, stdout: '', stderr })
  }
  t.equal(await place.result(sha), undefined)
})

t.test('a server without the list of what waits', async (t) => {
  place.proxy.plan({ status: 404 })
  const worker = place.work()
  t.match(await worker.finished, {
    code: 5,
    stderr: /acme\/rocket: the server is too old: work needs version 1\.5\.0/,
  })
})

t.test('bad options', async (t) => {
  const wrong = t.testdir({ jobs: 'no folder' })
  const cases: [args: string[], message: RegExp][] = [
    [['--jobs', '0'], /--jobs must be a number/],
    [['--keep', 'x'], /--keep must be a number/],
    [['--every', '5'], /--every: "5" is not a duration/],
    [['--every', '0s'], /--every must be at least 0\.1s; got "0s"/],
    [['--max-age', 'old'], /--max-age: "old" is not a duration/],
    [['--repo', 'rocket'], /--repo must be OWNER\/NAME/],
    [['--log-url', 'https://a.test/{log}'], /--log-url needs --logs/],
    [['--logs', '/tmp/x', '--log-url', 'https://a.test/'], /--log-url must be a URL/],
    [['--logs', '/tmp/x', '--log-url', 'ftp://a.test/{log}'], /--log-url must be a URL/],
    [['--context', ''], /missing --context/],
    [['--folder', '/dev/null/x'], /--folder: .* cannot be used/],
    [['--folder', '/proc/1/x'], /--folder: \/proc\/1\/x cannot be used: ENOENT/],
    [['--folder', wrong], /--folder: .* cannot be used: EEXIST/],
    [['word'], /unexpected word "word"/],
    [['--onec'], /unknown option --onec; did you mean --once/],
  ]
  const env = { COMMIT_STATUS_URL: server.url, COMMIT_STATUS_TOKEN: place.token }
  const named = ['work', '--repo', 'acme/rocket', '--context', 'ci']
  for (const [args, stderr] of cases)
    t.match(await call([...named, ...args, '--', 'true'], env), { code: 2, stdout: '', stderr })
  t.match(await call([...named, '--'], env), { code: 2, stderr: /missing command/ })
  t.match(await call([...named, '--', 'true'], { ...env, COMMIT_STATUS_TOKEN: ' ' }), {
    code: 2,
    stderr: /missing token/,
  })
  t.match(await call(['work', '--context', 'ci', '--', 'true'], env), {
    code: 2,
    stderr: /missing repository/,
  })
})

t.test('a git that would ignore the configuration of the worker', async (t) => {
  const folder = t.testdir({ git: '#!/bin/sh\necho git version 2.30.9\n' })
  chmodSync(join(folder, 'git'), 0o755)
  const env = { COMMIT_STATUS_URL: server.url, COMMIT_STATUS_TOKEN: place.token, PATH: folder }
  const args = ['--repo', 'acme/rocket', '--context', 'ci', '--folder', place.folder, '--once', '--', 'true']
  const stderr = /git is 2\.30; work needs 2\.31 or later/
  t.match(await call(['work', ...args], env), { code: 2, stdout: '', stderr })
})

t.test('pages that do not end are an outage', async (t) => {
  const body = JSON.stringify({ branches: [], next: 'main', left_out: 0, truncated: false })
  place.proxy.always(/awaiting/, { status: 200, headers: { 'content-type': 'application/json' }, body })
  const worker = place.work()
  await worker.printed('still trying: it answered a page whose next one is the same')
  place.proxy.always(/awaiting/, 'pass')
  await worker.printed('the service answers again')
  worker.kill('SIGTERM')
  t.equal((await worker.finished).code, 0)
})

t.test('units with a refused token leave the budget of their address to others', (t) => {
  const unit = readFileSync(join(import.meta.dirname, '../../commit-status-work.service'), 'utf8')
  const pause = Number(/^RestartSec=(\d+)$/m.exec(unit)?.[1])
  // The defaults of AUTH_FAILURE_LIMIT and AUTH_FAILURE_WINDOW.
  const [limit, window] = [30, 300]
  t.ok((2 * window) / pause <= limit / 2)
  t.end()
})

t.test('one worker for each folder', async (t) => {
  const first = place.workAlone([], { command: ['sh', '-c', 'echo up; sleep 60'] })
  await first.printed('up')
  const env = { COMMIT_STATUS_URL: server.url, COMMIT_STATUS_TOKEN: place.token }
  const named = ['work', '--repo', 'acme/rocket', '--context', 'ci', '--folder', place.folder]
  t.match(await call([...named, '--', 'true'], env), { code: 2, stderr: /another worker uses the folder/ })
  first.kill('SIGKILL')
  await first.finished
  const second = await place.work(['--once'], { command: ['true'] }).finished
  t.equal(second.code, 0, second.stderr)
})

t.test('a folder for logs that cannot be created is an error of the commit', async (t) => {
  const sha = place.push('main', 'echo started')
  const worker = place.work(['--once', '--logs', '/proc/1/x'])
  t.match(await worker.finished, { code: 1, stdout: '' })
  t.match(await place.result(sha), /^error: ENOENT/)
})

t.test('two spellings of a repository are one', async (t) => {
  const before = place.proxy.passages.length
  const worker = place.work(['--repo', 'Acme/Rocket', '--repo', 'ACME/rocket', '--once'])
  t.equal((await worker.finished).code, 0)
  const lists = place.proxy.passages.slice(before).filter(({ url }) => url.includes('/awaiting'))
  t.equal(new Set(lists.map(({ url }) => url)).size, 1)
})

t.test('git trusts what Node trusts', async (t) => {
  const url = await startHttps(t, server.url, privateCa.replace('ca.pem', 'server.pem'))
  const ofSystem = { NODE_OPTIONS: '--use-system-ca', SSL_CERT_FILE: privateCa }
  const cases: Record<string, string>[] = [
    { NODE_EXTRA_CA_CERTS: privateCa },
    { NODE_EXTRA_CA_CERTS: selfSigned, ...ofSystem },
    { NODE_EXTRA_CA_CERTS: selfSigned, ...ofSystem, NODE_OPTIONS: '--use-openssl-ca' },
    { NODE_EXTRA_CA_CERTS: '/missing.pem', GIT_SSL_CAINFO: privateCa, ...ofSystem },
  ]
  const work = async (env: Record<string, string>) => {
    const sha = place.push('main', 'true')
    const worker = place.workAlone(['--once'], { env: { ...env, COMMIT_STATUS_URL: url } })
    const { code, stderr } = await worker.finished
    t.equal(code, 0, stderr)
    t.match(await place.result(sha), /^success/)
    return stderr
  }
  for (const env of cases) t.notMatch(await work(env), 'warning: git')
  const file = join(place.folder, 'ca.pem')
  rmSync(file, { force: true })
  mkdirSync(file)
  const warning = 'warning: git trusts NODE_EXTRA_CA_CERTS alone: EISDIR'
  t.match(await work({ NODE_EXTRA_CA_CERTS: privateCa }), warning)
})

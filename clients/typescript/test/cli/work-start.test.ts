import t from 'tap'
import { startServer } from '../../../../test/helpers/server.ts'
import { call } from '../helpers/command-line.ts'
import { openWorkPlace } from '../helpers/working.ts'

const server = await startServer(t)
const place = await openWorkPlace(t, server, 'acme/rocket')
t.setTimeout(120_000)

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

import t from 'tap'
import { createClient, unwrap } from '../../src/index.ts'
import { call, commandLine } from '../helpers/command-line.ts'
import { startService } from '../helpers/service.ts'

t.test('exit codes', async (t) => {
  const { server, proxy, token, commit, commits } = await startService(t, { commits: 4 })
  const [, pending = '', failed = '', green = ''] = commits
  await server.report('acme/rocket', green, { context: 'w/first', state: 'success' }, token)
  await server.report('acme/rocket', pending, { context: 'a', state: 'pending' }, token)
  const description = '3 of 412 tests failed'
  const target_url = 'https://ci.example.org/5'
  await server.report(
    'acme/rocket',
    failed,
    { context: 'a', state: 'failure', description, target_url },
    token,
  )
  await server.report('acme/rocket', failed, { context: 'b', state: 'pending' }, token)
  const env = { COMMIT_STATUS_URL: server.url }
  const short = ['--timeout', '0.3s', '--interval', '0.1s']
  const cases: [string[], number, RegExp][] = [
    [[failed, '--require', 'a', 'c'], 1, /^failure: .*; failed: a; not reported: c\nfailure {2}a .*\n$/],
    [[failed, '--require', 'b', ...short], 1, /^failure: .*; failed: a\nfailure {2}a .*\n$/],
    [[failed, '--require', 'b', '--only', ...short], 3, /^pending: 1 pending; pending: b \(\d.* s\)\n$/],
    [['--require', 'a', 'c*', ...short, pending], 4, /^missing: 1 pending; not reported: c\*\n$/],
    [['--require', 'a', '--sha', pending, ...short], 3, /^pending: 1 pending; pending: a/],
    [['--require', 'a', '--stalled', '0s', '--sha', pending], 3, /^stalled: 1 pending; stalled: a \(/],
    [[commit.sha, ...short], 3, /^pending: nothing has reported\n$/],
    [[commit.sha, '--timeout', 'soon'], 2, /^$/],
    [[commit.sha, 'abc'], 2, /^$/],
    [[commit.sha, '--only'], 2, /^$/],
    [[green, '--require', 'w/*', '*', ...short], 2, /^$/],
    [[green, '--require', 'w/*', 'w/last', ...short], 4, /^missing: 1 success; not reported: w\/last\n$/],
  ]
  const processes: typeof cases = [
    [
      [failed],
      1,
      /^failure: 1 failure, 1 pending; failed: a\nfailure {2}a {2}3 of 412 tests failed {2}https:\/\/ci\.example\.org\/5\n$/,
    ],
    [['abc'], 2, /^$/],
  ]
  await Promise.all([
    ...cases.map(async ([args, code, stdout]) => {
      t.match(await call(['wait', '--repo', 'acme/rocket', ...args], env), { code, stdout }, args.join(' '))
    }),
    ...processes.map(async ([args, code, stdout]) => {
      const { finished } = commandLine(t, ['wait', '--repo', 'acme/rocket', ...args], { env })
      t.match(await finished, { code, stdout }, args.join(' '))
    }),
  ])
  const first = await call(['wait', '--repo', 'acme/rocket', green, '--require', 'w/*'], env)
  t.match(first.stderr, /contain "\*" \("w\/\*"\): the first match meets them.*; also name a context exactly/)
  const elsewhere = call(['wait', '--repo', 'acme/none', failed, '--json'], env)
  t.match(await elsewhere, { code: 5, stderr: /cannot read the statuses/ })
  await proxy.close()
  const away = { env: { COMMIT_STATUS_URL: proxy.url, COMMIT_STATUS_TIMEOUT: '1s' } }
  const began = performance.now()
  const unreachable = commandLine(t, ['wait', '--repo', 'acme/none', failed], away).finished
  t.match(await unreachable, { code: 5, stderr: /ECONNREFUSED/ })
  t.ok(performance.now() - began < 20_000, 'each read keeps to COMMIT_STATUS_TIMEOUT')
  const ignoring = ['wait', '--repo', 'acme/rocket', pending, '--only', '--require', 'c', ...short]
  const ignored = await call(ignoring, env)
  t.match(ignored, { code: 4, stdout: /^missing: nothing has reported; not reported: c\n$/ })
  t.notMatch(ignored.stderr, /waiting for a/, 'not for a context that --only ignores')
  const json = await call(['wait', '--repo', 'acme/rocket', failed, '--json'], env)
  t.match(JSON.parse(json.stdout), {
    outcome: 'failure',
    state: 'failure',
    missing: [],
    statuses: { length: 2 },
  })
})

t.test('112 contexts of parallel jobs', async (t) => {
  const { server, proxy, token, commit } = await startService(t)
  const contexts = Array.from({ length: 112 }, (_, index) => `ci/check-${index}`)
  const env = { COMMIT_STATUS_URL: proxy.url, COMMIT_STATUS_TOKEN: token }
  const wait = commandLine(
    t,
    ['wait', commit.sha, '--repo', 'acme/rocket', '--interval', '0.1s', '--require', ...contexts],
    { env },
  )
  let ended = false
  void wait.finished.then(() => {
    ended = true
  })
  await proxy.reached(1)

  const jobs = Array.from({ length: 4 }, (_, job) => contexts.slice(job * 28, job * 28 + 28))
  const held = 'ci/check-111'
  await Promise.all(
    jobs.map((share) =>
      reportAll(
        env,
        commit.sha,
        share.filter((name) => name !== held),
      ),
    ),
  )
  const read = async () => (await server.read('acme/rocket', commit.sha)).json
  t.match(await read(), { state: 'success', statuses: { length: 111 } })
  await proxy.reached(proxy.passages.length + 2)
  t.notOk(ended, 'one has not reported')
  await server.report('acme/rocket', commit.sha, { context: held, state: 'pending' }, token)
  await proxy.reached(proxy.passages.length + 2)
  t.notOk(ended, 'the combined state is pending')
  await server.report('acme/rocket', commit.sha, { context: held, state: 'success' }, token)
  t.match(await wait.finished, { code: 0, stdout: 'success: 112 success\n' })
  t.equal(new Set((await read()).statuses?.map((status) => status.id)).size, 112)
})

/** A job that reports its share of the contexts, all at once: first `pending`, then `success`. */
async function reportAll(env: typeof process.env, sha: string, contexts: string[]): Promise<void> {
  const client = createClient({ baseUrl: env.COMMIT_STATUS_URL ?? '', token: env.COMMIT_STATUS_TOKEN })
  await Promise.all(
    contexts.flatMap((context) =>
      (['pending', 'success'] as const).map(async (state) => {
        unwrap(await client.reportStatus({ owner: 'acme', repo: 'rocket', sha, body: { state, context } }))
      }),
    ),
  )
}

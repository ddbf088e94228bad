import t from 'tap'
import { asAdministrator } from '../../../../test/helpers/changes.ts'
import { execute } from '../../src/cli/execute.ts'
import { createClient, unwrap } from '../../src/index.ts'
import { call, commandLine, startHere } from '../helpers/command-line.ts'
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
  const away = { COMMIT_STATUS_URL: proxy.url, COMMIT_STATUS_TIMEOUT: '1s' }
  const began = performance.now()
  const unreachable = call(['wait', '--repo', 'acme/none', failed, '--timeout', '3s'], away)
  const said = 'commit-status: no answer from the service, still trying: .*ECONNREFUSED.*\n'
  t.match(await unreachable, {
    code: 5,
    stderr: new RegExp(`^.*only contexts.*\n${said}.*cannot read .*\n$`),
  })
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
  const args = ['wait', commit.sha, '--repo', 'acme/rocket', '--interval', '0.1s', '--require']
  const wait = call([...args, ...contexts], env)
  let ended = false
  void wait.then(() => {
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
  t.match(await wait, { code: 0, stdout: 'success: 112 success\n' })
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

t.test('--branch waits for what the rules of the branch require', async (t) => {
  const { server, proxy, token, commits } = await startService(t, { commits: 4 })
  const [failed = '', partly = '', passed = '', untested = ''] = commits
  const repository = await server.store.repositories.find('acme', 'rocket')
  if (!repository) throw new Error('the repository is missing')
  const required = ['ci/test', 'lint']
  await asAdministrator(server.store).rules.set(repository, { refPattern: 'main', required, bypass: [] })
  const report = (sha: string, context: string, state: string, description = 'as told') =>
    server.report('acme/rocket', sha, { context, state, description }, token)
  const env = { COMMIT_STATUS_URL: proxy.url }
  const wait = (...args: string[]) =>
    call(['wait', '--repo', 'acme/rocket', '--timeout', '0.4s', '--interval', '0.1s', ...args], env)
  await report(failed, 'ci/test', 'failure', '3 of 412')
  await report(failed, 'optional', 'error')
  for (const sha of [partly, passed]) await report(sha, 'ci/test', 'success')
  await report(passed, 'lint', 'success')
  await report(passed, 'optional', 'failure')

  const cases: [args: string[], code: number, stdout: RegExp, stderr?: RegExp][] = [
    [
      [failed, '--branch', 'main'],
      1,
      /^failure: ci\/test reported failure, lint has .*\nfailure {2}ci\/test {2}3 of 412\n$/,
    ],
    [[partly, '--branch', 'main'], 4, /^missing: lint has not reported\n$/],
    [[passed, '--branch', 'main'], 0, /^success: 2 required\n$/],
    [[passed, '--branch', 'refs/heads/main'], 0, /^success/],
    [[partly, '--branch', 'origin/main'], 7, /^$/, /no rule matches the branch origin\/main/],
    [[partly, '--branch', 'refs/tags/v1'], 7, /^$/, /no rule matches the tag refs\/tags\/v1$/m],
    [[partly, '--branch', 'Main', '--json'], 7, /^$/],
    [[partly, '--branch', 'mian', '--allow-no-rules'], 0, /^success: no check is required\n$/],
    [[partly, '--onto', 'mian', '--allow-no-rules'], 0, /^success: no check is required\n$/],
    [[partly, '--onto', 'mian', '--branch', 'mian'], 2, /^$/, /are the same/],
    [[passed, '--branch', 'mian', '--allow-no-rules'], 1, /^failure: .*\nfailure {2}optional {2}as told\n$/],
    [[untested, '--branch', 'mian', '--allow-no-rules'], 3, /^pending: no check is required\n$/],
    [[passed, '--branch', 'main', '--require', 'a'], 2, /^$/, /--require does not go with --branch/],
    [[passed, '--allow-no-rules'], 2, /^$/, /needs --branch/],
    [['f'.repeat(40), '--branch', 'main'], 5, /^$/, /cannot read the verdict/],
  ]
  for (const [args, code, stdout, stderr = /(?:)/] of cases)
    t.match(await wait(...args), { code, stdout, stderr }, args.join(' '))

  const json = JSON.parse((await wait(failed, '--branch', 'main', '--json')).stdout)
  t.match(json, {
    outcome: 'failure',
    verdict: 'failure',
    required: { length: 2 },
    decisive: [{ context: 'ci/test' }],
  })
  proxy.plan('pass', { status: 404 })
  const unread = await wait(failed, '--branch', 'main')
  t.match(unread, { code: 5, stderr: /out of order/ }, 'the statuses cannot be read')
  await report(partly, 'lint', 'pending')
  t.match(await wait(partly, '--branch', 'main'), { code: 3, stdout: 'pending: lint is pending\n' })

  const before = proxy.passages.length
  const waiting = wait(partly, '--branch', 'main', '--timeout', '20s', '--events')
  await proxy.answered(before + 4)
  const repeated = proxy.passages.slice(before).map(({ status }) => status)
  t.strictSame(repeated.slice(0, 4), [200, 200, 304, 304], 'an unchanged verdict has no body')
  await report(partly, 'optional', 'failure')
  await report(partly, 'lint', 'success', '0 complaints')
  const stdout = [
    'ci/test  success  as told',
    'lint  pending  as told',
    'lint  success  0 complaints',
    'success: 2 required\n',
  ]
  t.same(await waiting, { code: 0, stdout: stdout.join('\n'), stderr: '' })
})

t.test('--events prints one line for each change, and nothing else', async (t) => {
  const { server, proxy, token, commit } = await startService(t)
  const contexts = Array.from({ length: 6 }, (_, index) => `ci/check-${index}`)
  const report = (context: string, state: string, description: string) =>
    server.report(
      'acme/rocket',
      commit.sha,
      { context, state, description, target_url: `https://ci.example.org/jobs/${context.slice(-1)}` },
      token,
    )
  const args = ['wait', commit.sha, '--repo', 'acme/rocket', '--interval', '0.1s', '--events', '--require']
  const waiting = startHere(t, (signals) =>
    execute([...args, ...contexts], { COMMIT_STATUS_URL: proxy.url }, signals),
  )
  await proxy.answered(1)
  for (const context of contexts) await report(context, 'pending', 'running')
  await waiting.printed('ci/check-5')
  const seen = proxy.passages.length
  await report('ci/check-0', 'pending', 'running')
  await proxy.answered(seen + 2)
  for (const context of contexts.slice(1)) await report(context, 'success', 'passed in 2 min 5 s')
  await waiting.printed('ci/check-5  success')
  await report('ci/check-0', 'failure', '53 of 414 failed')
  const { code, stdout, stderr } = await waiting.finished
  t.strictSame([code, stderr], [1, ''])
  const lines = stdout.trimEnd().split('\n')
  t.equal(lines.at(-1), 'failure: 1 failure, 5 success; failed: ci/check-0')
  t.equal(lines.at(-2), 'ci/check-0  failure  53 of 414 failed  https://ci.example.org/jobs/0')
  t.equal(new Set(lines).size, 13, 'each change once')
  t.ok(stdout.length <= 900, `${stdout.length} bytes`)
  t.comment(`${stdout.length} bytes`)
})

import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { asAdministrator } from '../../../../../test/helpers/changes.ts'
import { git } from '../../../../../test/helpers/git.ts'
import { startFailingProxy } from '../../helpers/failing-proxy.ts'
import { startQuickLanding } from '../../helpers/landing.ts'
import { eventually } from '../../helpers/working.ts'

const place = await startQuickLanding(t)
const { server, repository, path, checkout, write, topic, report, until, leftovers, main, land } = place

t.test('what CI may not know of is pushed again, and what was cut short is asked for again', async (t) => {
  const asked = write(main(), { 'asked.txt': 'a\n' })
  git(checkout, 'push', '--quiet', path, `${asked}:refs/heads/elsewhere`)
  await report(asked, 'pending')
  const elsewhere = await land([asked, '--timeout', '0.5s'])
  t.match(elsewhere, { code: 3, stderr: /^(?!.*pushed)/s }, 'CI builds it on another branch')
  git(path, 'update-ref', '-d', 'refs/heads/elsewhere')
  const pending = land([asked])
  t.equal(await topic(asked), asked)
  await report(asked, 'success')
  t.match(await pending, { code: 0 })

  const cancelled = write(main(), { 'cancelled.txt': 'c\n' })
  git(checkout, 'push', '--quiet', path, `${cancelled}:refs/heads/elsewhere`)
  await report(cancelled, 'error')
  const silent = await server.createToken('acme', { limits: { contexts: ['other'] } })
  t.match(await land([cancelled], { COMMIT_STATUS_TOKEN: silent }), {
    code: 1,
    stdout: /^ci\/test reported failure on /,
    stderr: /^[^\n]*cannot ask for another run of ci\/test: [^\n]*\n$/,
  })
  const again = land([cancelled])
  t.equal(await topic(cancelled), cancelled)
  const { body } = await server.read('acme/rocket', cancelled, place.token)
  t.match(JSON.parse(body).statuses, [{ context: 'ci/test', state: 'pending' }])
  await report(cancelled, 'error')
  t.match(await again, { code: 1, stdout: /\nerror +ci\/test/ }, 'once for each landing')
  t.strictSame(leftovers(), [])

  git(checkout, 'push', '--quiet', path, `${cancelled}:refs/heads/land/main/${cancelled.slice(0, 12)}`)
  const waiting = land([cancelled])
  await untilPending(cancelled)
  await report(cancelled, 'success')
  t.match(await waiting, { code: 0, stderr: /^(?!.*pushed)/s }, 'its branch is still there')
})

t.test('what was cut short is asked for again through an outage', async (t) => {
  const proxy = await startFailingProxy(t, server.url)
  const [lists, reports] = [/^GET .*\/statuses$/, /^POST .*\/statuses\//]
  for (const matching of [lists, reports]) proxy.always(matching, { status: 503 })
  const commit = write(main(), { 'outage.txt': 'o\n' })
  git(checkout, 'push', '--quiet', path, `${commit}:refs/heads/elsewhere`)
  await report(commit, 'error')
  const landing = land([commit], through(proxy))
  for (const matching of [lists, reports]) {
    const passages = () =>
      proxy.passages.filter(({ method, url }) => matching.test(`${method} ${url}`)).map(({ at }) => at)
    await until(() => (passages().at(-1) ?? 0) - (passages()[0] ?? 0) > 1_500)
    proxy.always(matching, 'pass')
  }
  await report(await topic(commit), 'success')
  t.match(await landing, { code: 0 })
})

t.test('a result that comes during an outage is not asked for again', async (t) => {
  const proxy = await startFailingProxy(t, server.url)
  const reports = /^POST .*\/statuses\//
  proxy.always(reports, { status: 503 })
  const commit = write(main(), { 'meanwhile.txt': 'm\n' })
  git(checkout, 'push', '--quiet', path, `${commit}:refs/heads/elsewhere`)
  await report(commit, 'error')
  const landing = land([commit, '--timeout', '40s'], through(proxy))
  await until(() => proxy.passages.some(({ method, url }) => reports.test(`${method} ${url}`)))
  await report(commit, 'success')
  t.match(await landing, { code: 0 })
  const { json } = await server.read('acme/rocket', commit, place.token)
  t.match(json.statuses, [{ context: 'ci/test', state: 'success' }])
})

t.test('a result that comes during the pre-push hook is not asked for again', async (t) => {
  const hook = join(checkout, '.git/hooks/pre-push')
  const [started, ended] = [join(checkout, '../hook-started'), join(checkout, '../hook-ended')]
  mkdirSync(join(checkout, '.git/hooks'), { recursive: true })
  const program = `#!/bin/sh\n: >'${started}'\nwhile [ ! -e '${ended}' ]; do sleep 0.05; done\n`
  const commit = write(main(), { 'during.txt': 'd\n' })
  git(checkout, 'push', '--quiet', path, `${commit}:refs/heads/elsewhere`)
  await report(commit, 'error')
  writeFileSync(hook, program, { mode: 0o755 })
  t.teardown(() => rmSync(hook))
  const landing = land([commit])
  await until(() => existsSync(started))
  await report(commit, 'success')
  writeFileSync(ended, '')
  t.match(await landing, { code: 0 })
})

t.test('what may be asked for again is pushed, though another check may not', async (t) => {
  const rule = { refPattern: 'two', bypass: [] }
  await asAdministrator(server.store).rules.set(repository, { ...rule, required: ['ci/other', 'ci/test'] })
  const limited = await server.createToken('acme', { limits: { contexts: ['ci/other'] } })
  const commit = write(main(), { 'two.txt': '2\n' })
  git(checkout, 'push', '--quiet', path, `${commit}:refs/heads/elsewhere`, `${main()}:refs/heads/two`)
  for (const context of ['ci/other', 'ci/test']) await report(commit, 'error', context)
  t.match(await land([commit, '--onto', 'two'], { COMMIT_STATUS_TOKEN: limited }), {
    code: 1,
    stdout: /^ci\/other is pending, ci\/test reported failure on /,
    stderr: /cannot ask for another run of ci\/test: .*\n.*pushed /,
  })
})

/** Waits until another run of `ci/test` has been asked for. */
async function untilPending(sha: string): Promise<void> {
  await eventually(async () => {
    const { json } = await server.read('acme/rocket', sha, place.token)
    return json.statuses?.some(({ context, state }) => context === 'ci/test' && state === 'pending') ?? false
  })
}

/** The environment in which a landing and its git reach the server through a proxy. */
function through(proxy: { url: string }): Record<string, string> {
  return {
    COMMIT_STATUS_URL: proxy.url,
    COMMIT_STATUS_TIMEOUT: '1s',
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: `url.${proxy.url}/.insteadOf`,
    GIT_CONFIG_VALUE_0: `${server.url}/`,
  }
}

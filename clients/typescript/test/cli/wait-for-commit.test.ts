import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { git } from '../../../../test/helpers/git.ts'
import { shells } from '../../../shell/test/shells.ts'
import { type CommandLineOptions, call, commandLine } from '../helpers/command-line.ts'
import { environmentOf, placeOf, sentStates } from '../helpers/run-script.ts'
import { type Service, startService } from '../helpers/service.ts'

const first = await startService(t, { commits: 8 })
t.jobs = 4

/** Returns the service about a commit that it does not have, and what brings it. */
async function withUnknownCommit(t: Test): Promise<Service & { bring(): void }> {
  const service = await first.again()
  const folder = mkdtempSync(join(tmpdir(), 'mirrored-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  git(folder, 'init', '--quiet')
  git(folder, 'commit', '--quiet', '--allow-empty', '-m', folder)
  const sha = git(folder, 'rev-parse', 'HEAD')
  return {
    ...service,
    commit: { ...service.commit, sha },
    stored: () => service.stored(sha),
    bring: () => void git(folder, 'push', '--quiet', service.path, `HEAD:refs/heads/${sha}`),
  }
}

const unknown = ({ proxy }: Service) => proxy.passages.filter(({ status }) => status === 404).length

const clients: { name: string; options: CommandLineOptions }[] = [
  { name: 'TypeScript', options: {} },
  ...shells.slice(0, 1).map(({ name, program }) => ({ name, options: { program } })),
]
for (const { name, options } of clients) {
  const start = (t: Test, service: Service, ...args: string[]) =>
    commandLine(t, args, { ...options, env: environmentOf(service) })

  t.test(`${name}: report asks again until the commit is there`, { buffered: true }, async (t) => {
    const service = await withUnknownCommit(t)
    const report = ['report', ...placeOf(service), '--state', 'success']
    t.match(
      await start(t, service, ...report).finished,
      { code: 5, stderr: /does not exist/ },
      'not by default',
    )
    t.equal(unknown(service), 1)
    const waiting = start(t, service, ...report, '--wait-for-commit', '1m').finished
    await service.proxy.answered(2)
    service.bring()
    t.match(await waiting, { code: 0, stdout: / default success\n$/ })
    t.strictSame(await service.stored(), ['default success'])
  })

  t.test(`${name}: run starts its command at once`, { buffered: true }, async (t) => {
    const service = await withUnknownCommit(t)
    const command = ['--wait-for-commit', '1m', '--', 'sh', '-c', 'echo up; exit 3']
    const running = start(t, service, 'run', ...placeOf(service), ...command)
    await running.printed('up')
    // The shell script has given up `pending` by then.
    await service.proxy.reached(2)
    t.equal(service.proxy.passages.length - unknown(service) <= 1, true)
    await setTimeout(500)
    service.bring()
    t.match(await running.finished, { code: 3, stdout: 'up\n' })
    t.strictSame(await service.stored(), ['default failure'])
    t.equal(sentStates(service, { stored: true }).at(-1), 'failure')
    const sent = sentStates(service)
    t.notOk(sent.slice(sent.indexOf('failure')).includes('pending'), 'never pending after the result')
  })

  t.test(`${name}: a commit that never comes ends the wait`, { buffered: true }, async (t) => {
    const service = await withUnknownCommit(t)
    const began = performance.now()
    const place = [...placeOf(service), '--wait-for-commit', '2s']
    const ran = await start(t, service, 'run', ...place, '--', 'sh', '-c', 'exit 4').finished
    t.ok(unknown(service) >= 3, 'asked again')
    t.match(ran, { code: 4, stderr: /"failure, .* was not stored: .*does not exist/ })
    const waited = performance.now() - began
    t.ok(waited > 500 && waited < 25_000, `${waited} ms`)
  })
}

t.test('wait waits for the commit within its timeout', { buffered: true }, async (t) => {
  const service = await withUnknownCommit(t)
  const [owner, , sha] = [...placeOf(service)].slice(1)
  const args = ['wait', sha ?? '', '--repo', owner ?? '', '--require', 'a']
  const wait = (...options: string[]) => call([...args, ...options], environmentOf(service))
  t.match(await wait(), { code: 5, stderr: /does not exist/ })
  const began = performance.now()
  t.match(await wait('--wait-for-commit', '1h', '--timeout', '1s'), { code: 5 })
  t.ok(performance.now() - began < 25_000, 'not an hour')
  const count = service.proxy.passages.length
  const waiting = wait('--wait-for-commit', '1m')
  await service.proxy.answered(count + 1)
  service.bring()
  await service.server.report(
    'acme/rocket',
    service.commit.sha,
    { context: 'a', state: 'success' },
    service.token,
  )
  t.match(await waiting, { code: 0, stdout: 'success: 1 success\n' })
})

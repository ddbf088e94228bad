import { EventEmitter } from 'node:events'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { asAdministrator } from '../../../../../test/helpers/changes.ts'
import { capture } from '../../../../../test/helpers/cli.ts'
import { git } from '../../../../../test/helpers/git.ts'
import { createGit } from '../../../src/cli/git.ts'
import { land as landWith } from '../../../src/cli/land/land.ts'
import { startQuickLanding } from '../../helpers/landing.ts'

const place = await startQuickLanding(t)
const {
  server,
  repository,
  path,
  checkout,
  write,
  topic,
  report,
  ref,
  until,
  leftovers,
  main,
  land,
  landAlone,
} = place

/**
 * Creates a git for the PATH that records its arguments, and holds back those pushes that `hold`
 * names, a pattern of the shell, until `release`. As on a server, a push goes on if the git that
 * sent it is killed.
 */
function spyGit(name: string, hold: string) {
  const folder = join(checkout, `../${name}`)
  const [calls, held] = [join(folder, 'calls'), join(folder, 'held')]
  mkdirSync(folder)
  writeFileSync(held, '')
  const program = `#!/bin/sh
PATH='${process.env.PATH}'
case $* in ${hold}) ;; *) echo "$*" >>'${calls}'; exec git "$@" ;; esac
(
  trap '' HUP INT TERM
  echo "held: $*" >>'${calls}'
  while [ -e '${held}' ]; do sleep 0.05; done
  git "$@"
  code=$?
  echo done >>'${calls}'
  exit $code
) & wait $!
`
  writeFileSync(join(folder, 'git'), program, { mode: 0o755 })
  const read = () => (existsSync(calls) ? readFileSync(calls, 'utf8') : '')
  return {
    environment: { PATH: folder },
    calls: read,
    untilHeld: () => until(() => read().includes('held: ')),
    /** Resolves when all that was held has been carried out. */
    release() {
      rmSync(held, { force: true })
      return until(() => read().split('held: ').length === read().split('done\n').length)
    },
  }
}

t.test('interrupted at each step, it leaves nothing behind', async (t) => {
  await asAdministrator(server.store).rules.set(repository, {
    refPattern: 'stop/*',
    required: ['ci/test'],
    bypass: [],
  })
  const base = main()
  const secrets = [place.token, Buffer.from(`x:${place.token}`).toString('base64')]
  const steps = [
    { step: 'ticket', hold: '*:refs/landing/*', inGroup: true },
    { step: 'topic', hold: '*:refs/heads/land/*', inGroup: false },
    { step: 'cleanup', hold: "*' :refs/'*", inGroup: true },
    { step: 'landing', hold: '*--atomic*:refs/heads/stop/*', inGroup: true },
  ]
  const stop = async ({ step, hold, inGroup }: (typeof steps)[number]) => {
    const branch = `refs/heads/stop/${step}`
    const commit = write(base, { 'stop.txt': `${step}\n` })
    git(path, 'update-ref', branch, base)
    const spy = spyGit(step, hold)
    const { child, finished } = landAlone([commit, '--onto', `stop/${step}`], {
      env: spy.environment,
      detached: true,
    })
    const kill = () => process.kill(inGroup ? -(child.pid ?? 0) : (child.pid ?? 0), 'SIGTERM')
    const own = () => leftovers().filter((ref) => ref.includes(commit.slice(0, 12)))
    if (step === 'cleanup' || step === 'landing') await until(() => own().length === 2)
    if (step === 'cleanup') kill()
    if (step === 'landing') await report(commit, 'success')
    await spy.untilHeld()
    kill()
    // One that does not wait for its push ends before that.
    await Promise.race([finished, setTimeout(1_500)])
    await spy.release()
    const { code, stderr } = await finished
    const hasLanded = step === 'landing'
    t.match(
      { code, own: own(), tip: ref(branch) },
      { code: hasLanded ? 0 : 143, own: [], tip: hasLanded ? commit : base },
      step,
    )
    t.notMatch(stderr, /left a ticket|did not end/)
    t.notOk(
      secrets.some((secret) => spy.calls().includes(secret)),
      'no token in arguments',
    )
  }
  await Promise.all(steps.map(stop))
})

t.test('a git that ends by itself when it is interrupted has no result', async (t) => {
  const folder = join(checkout, '../ending')
  mkdirSync(folder)
  const program = `#!/bin/sh
PATH='${process.env.PATH}'
trap 'exit 0' TERM
: >'${folder}/started'
while :; do sleep 0.05; done
`
  writeFileSync(join(folder, 'git'), program, { mode: 0o755 })
  const interrupted = new AbortController()
  const own = createGit({ PATH: folder }, { signal: interrupted.signal, timeout: () => 600_000 })
  const result = own(['version'])
  await until(() => existsSync(join(folder, 'started')))
  interrupted.abort(new Error('interrupted'))
  await t.rejects(result, { message: 'interrupted' })
})

t.test('a pre-push hook is ended when the landing is interrupted, which waits for no push', async (t) => {
  const hook = join(checkout, '.git/hooks/pre-push')
  const [started, ended] = [join(checkout, '../hook-started'), join(checkout, '../hook-ended')]
  // What the shell says of its own child would end it, since nobody reads that any longer.
  const program = `#!/bin/sh
exec 2>/dev/null
trap ": >'${ended}'; exit 1" TERM
: >'${started}'
for i in $(seq 1200); do sleep 0.05; done
`
  mkdirSync(join(checkout, '.git/hooks'), { recursive: true })
  writeFileSync(hook, program, { mode: 0o755 })
  t.teardown(() => rmSync(hook))
  const landing = landSlowly(write(main(), { 'hook.txt': 'h\n' }))
  await until(() => existsSync(started))
  t.match(await landing.interrupt(), { code: 130, stderr: /^[^\n]*interrupted by SIGINT\n$/ })
  await until(() => existsSync(ended))
  t.strictSame(leftovers(), [])
})

t.test('what the server refuses to land stays where it was', async (t) => {
  const before = main()
  const commit = write(before, { 'refused.txt': 'r\n' })
  const spy = spyGit('refused', "*--atomic*:refs/heads/main' '*")
  const landing = land([commit], spy.environment)
  await topic(commit)
  await report(commit, 'success')
  await spy.untilHeld()
  await report(commit, 'failure')
  await spy.release()
  const stderr = new RegExp(`the server refused to move main to ${commit}: .*ci/test`)
  t.match(await landing, { code: 5, stderr })
  t.equal(main(), before)
  t.match(
    spy.calls(),
    / --no-verify \S+ .*:refs\/heads\/land\/main\/\S+.*\n.*$/,
    'the refused push removed no topic',
  )
  t.strictSame(leftovers(), [])
})

/** Starts a landing that does not renew its ticket, and that `interrupt` ends. */
function landSlowly(commit: string, environment: Record<string, string> = {}) {
  const signals = new EventEmitter()
  const times = { heartbeat: 600_000, grace: 600_000, interval: 250 }
  const finished = capture(() =>
    landWith([commit], { ...place.environment, ...environment }, signals, () => times),
  )
  return {
    interrupt() {
      signals.emit('SIGINT', 'SIGINT')
      return finished
    },
  }
}

/** Returns the topic and the ticket of a commit with their values, once both are there. */
async function refsOf(commit: string): Promise<Record<string, string>> {
  const own = () => leftovers().filter((name) => name.includes(commit.slice(0, 12)))
  await until(() => own().length === 2)
  return Object.fromEntries(own().map((name) => [name, ref(name)]))
}

t.test('a landing that has pushed nothing leaves what another one of the same commit has', async (t) => {
  const commit = write(main(), { 'nothing.txt': 'n\n' })
  const landing = land([commit])
  const [topicName = '', ticket = ''] = Object.keys(await refsOf(commit))
  const spy = spyGit('first-list', "*ls-remote*' refs/heads/main '*")
  const other = landSlowly(commit, spy.environment)
  await spy.untilHeld()
  t.match(await other.interrupt(), { code: 130, stderr: /^[^\n]*interrupted by SIGINT\n$/ })
  t.strictSame(leftovers(), [topicName, ticket])
  await spy.release()
  await report(commit, 'success')
  t.match(await landing, { code: 0, stderr: /^(?!.*pushed.*pushed)/s })
})

t.test('a landing whose ticket another one has taken over leaves it, and the topic', async (t) => {
  const commit = write(main(), { 'taken.txt': 't\n' })
  const first = landSlowly(commit)
  const before = await refsOf(commit)
  const second = land([commit])
  const [topicName = '', ticket = ''] = Object.keys(before)
  await until(() => ref(ticket) !== before[ticket])
  t.match(await first.interrupt(), { code: 130, stderr: /^(?!.*left)/s })
  t.strictSame(leftovers(), [topicName, ticket])
  await report(commit, 'success')
  t.match(await second, { code: 0, stderr: /^(?!.*pushed)/s })
  t.strictSame(leftovers(), [])
})

t.test('a ticket that is taken over at the moment of its removal stays', async (t) => {
  const commit = write(main(), { 'lease.txt': 'l\n' })
  const spy = spyGit('lease', "*' :refs/'*")
  const first = landSlowly(commit, spy.environment)
  const before = await refsOf(commit)
  const interrupted = first.interrupt()
  await spy.untilHeld()
  const second = land([commit])
  const [topicName = '', ticket = ''] = Object.keys(before)
  await until(() => ref(ticket) !== before[ticket])
  await spy.release()
  t.match(await interrupted, { code: 130 })
  t.strictSame(leftovers(), [topicName, ticket])
  await report(commit, 'success')
  t.match(await second, { code: 0, stderr: /^(?!.*pushed)/s })
})

t.test('a topic that somebody removes is pushed again while a check is pending', async (t) => {
  const commit = write(main(), { 'removed.txt': 'r\n' })
  const landing = land([commit])
  const [topicName = ''] = Object.keys(await refsOf(commit))
  git(path, 'update-ref', '-d', topicName)
  t.equal(await topic(commit), commit)
  await report(commit, 'pending')
  git(path, 'update-ref', '-d', topicName)
  t.equal(await topic(commit), commit)
  await report(commit, 'success')
  t.match(await landing, { code: 0 })
  t.strictSame(leftovers(), [])
})

t.test(
  'a topic that a landing has found stays if that is interrupted, and goes if its check fails',
  async (t) => {
    const commit = write(main(), { 'found.txt': 'f\n' })
    const topicName = `refs/heads/land/main/${commit.slice(0, 12)}`
    git(checkout, 'push', '--quiet', path, `${commit}:${topicName}`)
    const interrupted = landSlowly(commit)
    await refsOf(commit)
    t.match(await interrupted.interrupt(), {
      code: 130,
      stderr: `left ${topicName}, which another landing has pushed; if that has ended, remove it: git push origin --delete ${topicName}\n`,
    })
    t.strictSame(leftovers(), [topicName])

    const landing = land([commit])
    await refsOf(commit)
    await report(commit, 'failure')
    t.match(await landing, { code: 1 })
    t.strictSame(leftovers(), [])
  },
)

import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { asAdministrator } from '../../../../../test/helpers/changes.ts'
import { git } from '../../../../../test/helpers/git.ts'
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

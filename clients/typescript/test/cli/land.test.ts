import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { asAdministrator } from '../../../../test/helpers/changes.ts'
import { capture } from '../../../../test/helpers/cli.ts'
import { freePort, listenLocally } from '../../../../test/helpers/free-port.ts'
import { git, gitWith } from '../../../../test/helpers/git.ts'
import { land as landWith } from '../../src/cli/land/land.ts'
import { type CommandLineOptions, call } from '../helpers/command-line.ts'
import { startFailingProxy } from '../helpers/failing-proxy.ts'
import { quickLander, startLanding } from '../helpers/landing.ts'
import { quickTimes } from '../helpers/quick-lander.ts'

const place = await startLanding(t)
const { server, repository, path, checkout, write, topic, report, ref, until, leftovers } = place
const home = process.cwd()
process.chdir(checkout)
t.teardown(() => process.chdir(home))
/** Lands in this process, which is faster, with short times. */
const land = (args: string[], env: Record<string, string> = {}) =>
  capture(() => landWith(args, { ...place.environment, ...env }, () => quickTimes))
const landAlone = (args: string[], options?: CommandLineOptions) =>
  place.land(args, { program: quickLander, ...options })
const main = () => ref('refs/heads/main')
const pageOf = (sha: string) => `${server.url}/acme/rocket/commits/${sha}`
const removeLeftovers = () =>
  gitWith(
    path,
    leftovers()
      .map((name) => `delete ${name}\n`)
      .join(''),
    'update-ref',
    '--stdin',
  )

/** What a landing may not touch: the work tree, the index, HEAD, and all refs. */
const stateOf = () => [
  git(checkout, 'status', '--porcelain', '--branch'),
  git(checkout, 'for-each-ref'),
  git(checkout, 'ls-files', '--stage'),
  readFileSync(join(checkout, 'a.txt'), 'utf8'),
  existsSync(join(checkout, '.git/FETCH_HEAD')),
]

t.setTimeout(180_000)

t.test('fast-forward, then a merge, from a dirty checkout with a detached HEAD', async (t) => {
  const base = main()
  const ahead = write(base, { 'c.txt': 'c\n' })
  const beside = write(base, { 'a.txt': '1\n2\n3\n4\n' })
  git(checkout, 'checkout', '--quiet', '--detach', base)
  writeFileSync(join(checkout, 'a.txt'), 'being edited\n')
  git(checkout, 'add', 'a.txt')
  writeFileSync(join(checkout, 'b.txt'), 'being edited too\n')
  const before = stateOf()

  // It would make the commit a root.
  git(checkout, 'replace', '--graft', ahead)
  const first = land([ahead])
  t.equal(await topic(ahead), ahead, 'CI builds the commit itself')
  await report(ahead, 'success')
  const landed = await first
  git(checkout, 'replace', '--delete', ahead)
  t.match(landed, { code: 0, stdout: `landed ${ahead} on main\n`, stderr: /may bypass the rules of main/ })
  t.equal(main(), ahead)
  t.strictSame(leftovers(), [], 'neither topic nor ticket')
  const again = await place.land([ahead]).finished
  t.match(again, { code: 0, stdout: `${ahead} is on main already\n` })

  const elsewhere = git(path, 'commit-tree', 'main^{tree}', '-p', 'main', '-m', 'Not in the checkout')
  git(path, 'update-ref', 'refs/heads/main', elsewhere)
  const second = land([beside, '--json'])
  const merge = await topic(beside)
  t.strictSame(git(checkout, 'show', '--no-patch', '--format=%P%n%an <%ae>%n%ct', merge).split('\n'), [
    `${elsewhere} ${beside}`,
    'Ann <ann@example.org>',
    git(checkout, 'show', '--no-patch', '--format=%ct', elsewhere),
  ])
  const later = git(path, 'commit-tree', 'main^{tree}', '-p', 'main', '-m', 'Pushed while checks ran')
  git(path, 'update-ref', 'refs/heads/main', later)
  await until(() => ![merge, ''].includes(ref(`refs/heads/land/main/${beside.slice(0, 12)}`)))
  const remade = await topic(beside)
  t.equal(git(checkout, 'show', '--no-patch', '--format=%P', remade), `${later} ${beside}`)
  await report(remade, 'success')
  t.match(JSON.parse((await second).stdout), { outcome: 'success', commit: beside, branch: 'main' })
  t.equal(main(), remade)
  t.strictSame(stateOf(), before, 'the checkout is as it was')
  t.strictSame(leftovers(), [])
})

t.test('a failed check, timeouts, and a landing that is killed and runs again', async (t) => {
  const commit = write(main(), { 'd.txt': 'd\n' })
  const failed = land([commit])
  await topic(commit)
  await report(commit, 'failure')
  t.match(await failed, {
    code: 1,
    stdout: `ci/test reported failure on ${commit}\nfailure  ci/test  https://ci.example.org/5\n${pageOf(commit)}\n`,
  })
  t.strictSame(leftovers(), [])

  const beside = write(main(), { 'e.txt': 'e\n' })
  await report(commit, 'success')
  t.match(await land([commit]), { code: 0, stderr: /^(?!.*pushed)/s }, 'tested already')
  const first = await land([beside, '--timeout', '0.5s'])
  const [, merge = ''] = /pushed (\w+) to/.exec(first.stderr) ?? []
  t.match(first, {
    code: 4,
    stdout: `timed out: ci/test has not reported on ${merge}; run it again to go on waiting\n${pageOf(merge)}\n`,
    stderr: new RegExp(
      `to remove it: git push origin --delete refs/heads/land/main/${beside.slice(0, 12)}\n`,
    ),
  })
  t.strictSame(leftovers(), [`refs/heads/land/main/${beside.slice(0, 12)}`], 'CI may go on')
  await report(merge, 'pending')
  t.match(await land([beside, '--timeout', '0.5s']), { code: 3, stdout: /ci\/test is pending on/ })
  const killed = landAlone([beside])
  await until(() => leftovers().length === 2)
  killed.child.kill('SIGKILL')
  await killed.finished
  await report(merge, 'success')
  const again = await land([beside])
  t.match(again, { code: 0, stdout: `landed ${beside} on main as ${merge}\n` }, 'the same merge')
  t.notMatch(again.stderr, /pushed|waiting/, 'built once, and its former ticket is its own')
  t.strictSame(leftovers(), [])

  const interrupted = landAlone([write(merge, { 'f.txt': 'f\n' })])
  await until(() => leftovers().length === 2)
  interrupted.child.kill('SIGTERM')
  t.match(await interrupted.finished, {
    code: 143,
    stderr: /rules of main.*\n(.* pushed .*\n)?.*interrupted by SIGTERM\n$/,
  })
  t.strictSame(leftovers(), [])
})

t.test('a branch that fails the same check is named, since when, and what passed last', async (t) => {
  const passed = main()
  const broken = write(passed, { 'broken.txt': 'b\n' })
  const tip = write(broken, { 'broken.txt': 'c\n' })
  git(checkout, 'push', '--quiet', path, `${tip}:refs/heads/main`)
  for (const sha of [broken, tip]) await report(sha, 'failure')
  await report(passed, 'success')
  const { body } = await server.read('acme/rocket', broken, place.token)
  const [{ created_at: time }] = JSON.parse(body).statuses
  const beside = write(passed, { LICENSE: 'MIT\n' })
  const landing = land([beside])
  const merge = await topic(beside)
  await report(merge, 'failure')
  t.match(await landing, {
    code: 1,
    stdout: [
      `ci/test reported failure on ${merge}; main fails ci/test too, without this commit, since ${broken} (${time}); ${passed} passed last`,
      'failure  ci/test  https://ci.example.org/5',
      `${pageOf(merge)}\n`,
    ].join('\n'),
  })

  await report(tip, 'success')
  const again = await land([beside, '--json'])
  t.match(JSON.parse(again.stdout), {
    outcome: 'failure',
    message: `ci/test reported failure on ${merge}`,
    page: pageOf(merge),
  })
})

t.test('a conflict names the commit and the files', async (t) => {
  const mine = write(main(), { 'a.txt': 'mine\n', 'b.txt': 'mine\n', 'new.txt': 'n\n' })
  const theirs = write(main(), { 'a.txt': 'theirs\n', 'b.txt': 'theirs\n' })
  git(checkout, 'push', '--quiet', path, `${theirs}:refs/heads/main`)
  const stdout = `${mine.slice(0, 12)} conflicts with ${theirs.slice(0, 7)} "Change" of main in a.txt, b.txt\n`
  t.match(await land([mine]), { code: 6, stdout })
  t.equal(main(), theirs)
  t.strictSame(leftovers(), [])
})

t.test('what cannot be landed is refused with the reason, before anything is pushed', async (t) => {
  const commit = write(main(), { 'g.txt': 'g\n' })
  git(checkout, 'push', '--quiet', path, `${main()}:refs/heads/free`)
  /** Returns the git directory of another checkout, whose `origin` is on a server. */
  const cloneOf = (origin: string, ...options: string[]) => {
    const folder = mkdtempSync(`${checkout}-`)
    git(checkout, 'clone', '--quiet', ...options, `file://${checkout}`, folder)
    git(folder, 'remote', 'set-url', 'origin', `${origin}/acme/rocket.git`)
    return { GIT_DIR: join(folder, '.git') }
  }
  /** Returns the git directory of one that sends what is for the server elsewhere. */
  const rewriting = (key: string) => {
    const clone = cloneOf(server.url)
    git(clone.GIT_DIR, 'config', `url.https://git.example.org/.${key}`, `${server.url}/`)
    return clone
  }
  git(checkout, 'reset', '--quiet', '--hard', commit)
  const away = `http://127.0.0.1:${await freePort()}`
  const redirecting = createServer(({ url }, response) =>
    response.writeHead(302, { location: server.url + url }).end(),
  )
  const moved = `http://127.0.0.1:${await listenLocally(redirecting)}`
  t.teardown(() => redirecting.close())
  git(checkout, 'config', 'credential.helper', '!touch asked; true')
  const oldGit = join(checkout, '../old')
  mkdirSync(oldGit)
  writeFileSync(
    join(oldGit, 'git'),
    `#!/bin/sh\n[ "$1" = version ] && echo git version 2.37.9 || PATH='${process.env.PATH}' exec git "$@"\n`,
    { mode: 0o755 },
  )
  const readOnly = await server.createToken('acme', { limits: { push: false } })
  const cases: [args: string[], code: number, stderr: RegExp, env?: Record<string, string>][] = [
    [[commit, '--onto', 'free'], 7, /no rule matches the branch free/],
    [[commit, '--branch', 'free'], 7, /no rule matches the branch free/],
    [[commit, '--branch', 'free', '--onto', 'free'], 2, /are the same; give one of them/],
    [[commit, '--onto', 'mian'], 2, /the server has no branch mian/],
    [[commit, '--onto', 'a..b'], 2, /"a..b" is not a name of a branch/],
    [[commit], 2, /git fetch --unshallow/, cloneOf(server.url, '--depth=1')],
    [[commit], 2, /the remote origin is .*, but land pushes to http/, cloneOf('https://git.example.org')],
    [
      [commit],
      2,
      /git pushes to https:\/\/git\.example\.org\/acme\/rocket instead of/,
      rewriting('pushInsteadOf'),
    ],
    [[commit], 2, /the remote origin is https:\/\/git\.example\.org/, rewriting('insteadOf')],
    [['f'.repeat(40)], 2, /is not a commit in this checkout/],
    [[git(checkout, 'rev-parse', 'HEAD^{tree}')], 2, /is not a commit in this checkout/],
    [[commit], 2, /git is 2\.37; land needs 2\.38 or later/, { PATH: oldGit }],
    [[commit], 2, /missing token/, { COMMIT_STATUS_TOKEN: '' }],
    [[commit], 5, /does not accept the token in COMMIT_STATUS_TOKEN/, { COMMIT_STATUS_TOKEN: 'wrong' }],
    [[commit], 5, /the token in COMMIT_STATUS_TOKEN may not push/, { COMMIT_STATUS_TOKEN: readOnly }],
    // The checks of the checkout come first, and may take seconds on a busy machine.
    [
      [commit, '--timeout', '5s'],
      5,
      /still trying: .*onnect.*\n.*git failed .*onnect/,
      { ...cloneOf(away), COMMIT_STATUS_URL: away, COMMIT_STATUS_TIMEOUT: '0.01s' },
    ],
    [[commit], 5, /git failed .* 302/, { ...cloneOf(moved), COMMIT_STATUS_URL: moved }],
  ]
  for (const [args, code, stderr, env] of cases) {
    const end = await call(['land', ...args], { ...place.environment, ...env })
    t.match(end, { code, stderr, stdout: '' }, String(stderr))
  }
  t.notOk(existsSync(join(checkout, 'asked')), 'no credential helper is asked')

  for (const name of ['land', 'a/refs/heads/land']) git(path, 'update-ref', `refs/heads/${name}`, main())
  t.match(await land([commit]), { code: 5, stderr: /the branch land is in the way of land\/main\// })
  git(path, 'update-ref', '-d', 'refs/heads/land')
  await asAdministrator(server.store).rules.set(repository, {
    refPattern: '*',
    required: ['ci/test'],
    bypass: [],
  })
  t.match(await land([commit]), { code: 5, stderr: /a rule matches land\/main\/.* too/ })
  await asAdministrator(server.store).rules.remove(repository, '*')
  t.strictSame(leftovers(), [])
})

t.test(
  'turns: the oldest first, a dead ticket is skipped and removed, a forged one delays for two grace times',
  async (t) => {
    const blob = git(path, 'rev-parse', 'main:a.txt')
    const forge = (name: string, object = blob) =>
      git(path, 'update-ref', `refs/landing/main/${name}`, object)
    const forgeAll = (names: string[]) =>
      gitWith(
        path,
        names.map((name) => `update refs/landing/main/${name} ${blob}\n`).join(''),
        'update-ref',
        '--stdin',
      )
    forge('20200101T000000000Z-000000000000')
    const others = Array.from({ length: 45 }, (_, index) => `20200102T000000000Z-2222222222${index + 10}`)
    forgeAll(others)
    git(path, 'update-ref', 'refs/heads/land/main/000000000000', main())
    git(path, 'update-ref', 'refs/heads/land/main/111111111111', main())
    const start = performance.now()
    const commit = write(main(), { 'h.txt': 'h\n' })
    const dead = land([commit])
    await topic(commit)
    const ticket = (of: string) => {
      const isTicket = (name: string) => name.startsWith('refs/landing/') && name.endsWith(of.slice(0, 12))
      return ref(leftovers().find(isTicket) ?? 'none')
    }
    const untilRefreshed = (of: string) => {
      const value = ticket(of)
      return until(() => !['', value].includes(ticket(of)))
    }
    await untilRefreshed(commit)
    await report(commit, 'success')
    t.match(await dead, { code: 0, stderr: /waiting for older tickets on main: 46/ })
    t.ok(performance.now() - start > quickTimes.grace, 'after the grace time')
    t.strictSame(
      leftovers(),
      ['refs/heads/land/main/111111111111', ...others.slice(-26).map((name) => `refs/landing/main/${name}`)],
      'the dead ticket is gone, with its topic; one push removes twenty, however many are forged',
    )
    removeLeftovers()

    const forgeOldest = () =>
      forge(
        '20200101T000000000Z-000000000000',
        gitWith(path, `${Math.random()}`, 'hash-object', '-w', '--stdin'),
      )
    // Before the landing begins, which may be faster than the interval.
    forgeOldest()
    const forged = setInterval(forgeOldest, 250)
    t.teardown(() => clearInterval(forged))
    const second = write(main(), { 'i.txt': 'i\n' })
    const began = performance.now()
    const delayed = land([second])
    await until(() => ticket(second) !== '')
    await untilRefreshed(second)
    t.equal(ref(`refs/heads/land/main/${second.slice(0, 12)}`), '', 'a ticket is refreshed while it waits')
    await topic(second)
    const waited = performance.now() - began
    t.ok(waited > 2 * quickTimes.grace && waited < 20_000, `${waited} ms`)
    await report(second, 'success')
    t.match(await delayed, { code: 0 })
    clearInterval(forged)
    removeLeftovers()

    const third = write(main(), { 'j.txt': 'j\n' })
    forgeAll(
      others.map((name) =>
        name.replace(/\d{12}$/, third.slice(0, 12)).replace('000Z', `0${name.slice(-2)}Z`),
      ),
    )
    const last = land([third])
    await topic(third)
    await report(third, 'success')
    t.match(await last, { code: 0 }, 'many tickets of its own')
    t.equal(leftovers().length, 5)
    removeLeftovers()
  },
)

t.test('a ticket that is silent is passed over, and named with the command that removes it', async (t) => {
  t.teardown(removeLeftovers)
  const digits = 'a'.repeat(12)
  const ticket = `refs/landing/main/20200101T000000000Z-${digits}`
  const spoken = `refs/landing/main/20200101T000000001Z-$(id)-${digits}`
  for (const name of [ticket, spoken]) git(path, 'update-ref', name, git(path, 'rev-parse', 'main:a.txt'))
  git(path, 'update-ref', `refs/heads/land/main/${digits}`, main())
  const times = { heartbeat: 500, grace: 60_000, interval: 500 }
  const commit = write(main(), { 'silent.txt': 's\n' })
  const landing = capture(() => landWith([commit], place.environment, () => times))
  await topic(commit)
  await report(commit, 'success')
  const { code, stderr } = await landing
  const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`
  t.equal(code, 0)
  t.match(
    stderr,
    new RegExp(`${ticket} has not been renewed since ${time}; it will be passed over at ${time}\n`),
  )
  t.match(
    stderr,
    new RegExp(
      `passed over ${ticket}, not renewed since ${time}; .* git push origin --delete ${ticket} refs/heads/land/main/${digits}\n`,
    ),
  )
  const [, command = ''] = /remove it: (git push .*\$.*)\n/.exec(stderr) ?? []
  t.equal(leftovers().length, 3, 'it is removed after the grace time, not before')
  const authorization = `Authorization: Basic ${Buffer.from(`x:${place.token}`).toString('base64')}`
  git(checkout, 'config', 'http.extraHeader', authorization)
  t.teardown(() => git(checkout, 'config', '--unset', 'http.extraHeader'))
  await promisify(execFile)('sh', ['-c', command], { cwd: checkout })
  t.strictSame(leftovers(), [ticket], 'the command means what it names, whatever somebody has called it')
})

t.test('an outage is no missed renewal', async (t) => {
  t.teardown(removeLeftovers)
  const proxy = await startFailingProxy(t, server.url)
  const ticket = `refs/landing/main/20200101T000000000Z-${'a'.repeat(12)}`
  git(path, 'update-ref', ticket, git(path, 'rev-parse', 'main:a.txt'))
  const times = { heartbeat: 1_000, grace: 60_000, interval: 200 }
  const commit = write(main(), { 'outage.txt': 'o\n' })
  const environment = {
    ...place.environment,
    COMMIT_STATUS_URL: proxy.url,
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: `url.${proxy.url}/.insteadOf`,
    GIT_CONFIG_VALUE_0: `${server.url}/`,
  }
  const landing = capture(() => landWith([commit], environment, () => times))
  await until(() => leftovers().length === 2)
  proxy.always(/git/, { status: 503 })
  await setTimeout(4 * times.heartbeat)
  proxy.always(/git/, 'pass')
  const looks = () =>
    proxy.passages.filter(({ url, status }) => /upload-pack/.test(url) && status === 200).length
  const before = looks()
  await until(() => looks() > before + 1)
  git(path, 'update-ref', '-d', ticket)
  await report(await topic(commit), 'success')
  const { code, stderr } = await landing
  t.equal(code, 0)
  t.match(stderr, /waiting for older tickets on main: 1/)
  t.notMatch(stderr, /passed over/)
})

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

t.test('a pre-push hook is run once for each merge, and its words are shown', async (t) => {
  const hook = join(checkout, '.git/hooks/pre-push')
  const runs = join(checkout, '../hook-runs')
  t.teardown(() => {
    rmSync(hook)
    for (const key of ['push.pushOption', 'remote.pushDefault']) git(checkout, 'config', '--unset', key)
  })
  const install = (commands: string) =>
    writeFileSync(hook, `#!/bin/sh\nread -r ref rest\necho "$ref" >>'${runs}'\n${commands}\n`, {
      mode: 0o755,
    })
  const runsOf = () => readFileSync(runs, 'utf8').trim().split('\n')
  git(checkout, 'config', 'push.pushOption', 'ci.skip')
  git(checkout, 'config', 'remote.pushDefault', 'elsewhere')

  install('echo the tests timed out; echo "see docs/hooks" >&2; exit 1')
  const commit = write(main(), { 'hook.txt': 'h\n' })
  t.match(await land([commit]), {
    code: 1,
    stdout: `the pre-push hook of this checkout refused ${commit}\n`,
    stderr: /pre-push: the tests timed out\n.*pre-push: see docs\/hooks\n/,
  })
  t.strictSame(runsOf(), [commit], 'it is not run again, whatever its words are')
  t.strictSame(leftovers(), [])

  install('exit 0')
  const landing = land([commit])
  await report(await topic(commit), 'success')
  t.match(await landing, { code: 0 })
  t.strictSame(runsOf(), [commit, commit], 'once for the ticket, the topic and the branch')
  t.equal(main(), commit)
})

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

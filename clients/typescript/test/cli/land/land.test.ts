import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { groupLandings } from '../../../../../src/web/events/landings.ts'
import { sentenceOf } from '../../../../../src/web/events/sentences.ts'
import { asAdministrator } from '../../../../../test/helpers/changes.ts'
import { capture } from '../../../../../test/helpers/cli.ts'
import { git, gitWith } from '../../../../../test/helpers/git.ts'
import { createGit } from '../../../src/cli/git.ts'
import { createRemote } from '../../../src/cli/land/remote.ts'
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
const pageOf = (sha: string) => `${server.url}/acme/rocket/commits/${sha}`

/** What a landing may not touch: the work tree, the index, HEAD, and all refs. */
const stateOf = () => [
  git(checkout, 'status', '--porcelain', '--branch'),
  git(checkout, 'for-each-ref'),
  git(checkout, 'ls-files', '--stage'),
  readFileSync(join(checkout, 'a.txt'), 'utf8'),
  existsSync(join(checkout, '.git/FETCH_HEAD')),
]

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
  t.match(landed, { code: 0, stdout: `landed ${ahead} on main\n`, stderr: /^(?!.*bypass)/s })
  const events = await server.store.auditLog.latestOf(
    repository.id,
    0,
    { action: 'push', user: undefined },
    100,
  )
  const [group, ...others] = groupLandings(events)
  t.same(others, [], 'one line on the page of events')
  t.match(
    group?.earlier,
    [{ action: 'push' }, { action: 'push' }],
    'with the pushes of the ticket and the topic',
  )
  t.match(
    group && sentenceOf(group.event, { repository: 'acme/rocket' }).sentence.toString(),
    new RegExp(
      ` landed on .*main.*, which moved from <code>${base.slice(0, 7)}</code> to <code>${ahead.slice(0, 7)}<`,
    ),
  )
  t.equal(main(), ahead)
  t.strictSame(leftovers(), [], 'neither topic nor ticket')
  const again = await landAlone([ahead]).finished
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

t.test('who may bypass the rule is told if the branch was moved although checks were not met', async (t) => {
  const [user] = await server.store.users.list()
  if (!user) throw new Error('there is no user')
  const rule = { refPattern: 'main', required: ['ci/test'] }
  await asAdministrator(server.store).rules.set(repository, { ...rule, bypass: [user] })
  const url = `${server.url}/acme/rocket.git`
  const own = createGit(place.environment, { url, token: place.token, timeout: () => 60_000 })
  const times = { retryFor: () => 0, outageAfter: 0, onOutage: () => {} }
  const commit = write(main(), { 'g.txt': 'g\n' })
  const { code, stderr } = await capture(async () => {
    const refused = await createRemote(own, url, times).push([], [`${commit}:refs/heads/main`])
    return refused === undefined ? 0 : 1
  })
  t.equal(code, 0)
  t.match(stderr, 'the server says: main: you may bypass its rule: ci/test has not reported\n')
  await asAdministrator(server.store).rules.set(repository, { ...rule, bypass: [] })
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
    stderr: /^(.* pushed .*\n)?.*interrupted by SIGTERM\n$/,
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

t.test('a conflict of more files than fit into arguments names the first ones', async (t) => {
  const folder = Array.from({ length: 14 }, () => 'x'.repeat(250)).join('/')
  const names = Array.from({ length: 700 }, (_, index) => `${folder}/${index + 1_000}`)
  const all = (text: string) => Object.fromEntries(names.map((name) => [name, text]))
  const [mine, theirs] = [write(main(), all('mine\n')), write(main(), all('theirs\n'))]
  git(checkout, 'push', '--quiet', path, `${theirs}:refs/heads/main`)
  const { code, stdout } = await land([mine])
  t.equal(code, 6)
  const [before = '', files = ''] = stdout.split(' of main in ')
  t.equal(before, `${mine.slice(0, 12)} conflicts with ${theirs.slice(0, 7)} "Change"`)
  t.equal(files, `${names.slice(0, 100).join(', ')} and 600 more\n`)
})

t.test('a commit of an author without a name is merged', async (t) => {
  for (const name of ['', '.']) {
    const beside = git(path, 'rev-parse', 'main')
    const tree = git(path, 'rev-parse', 'main^{tree}')
    const author = `${name} <ann@example.org> 1700000000 +0000`
    const text = `tree ${tree}\nparent ${beside}\nauthor ${author}\ncommitter ${author}\n\nImported\n`
    const commit = gitWith(checkout, text, 'hash-object', '-t', 'commit', '-w', '--stdin', '--literally')
    const tip = write(beside, { 'named.txt': `${name}\n` })
    git(checkout, 'push', '--quiet', path, `${tip}:refs/heads/main`)
    const landing = land([commit])
    const merge = await topic(commit)
    t.equal(git(checkout, 'show', '--no-patch', '--format=%an <%ae>', merge), 'unknown <ann@example.org>')
    await report(merge, 'success')
    t.match(await landing, { code: 0 })
  }
})

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

import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { asAdministrator } from '../../../test/helpers/changes.ts'
import { git } from '../../../test/helpers/git.ts'
import { minimalEnvironment } from '../../../test/helpers/process.ts'
import { startSmallProcesses } from '../../../test/helpers/small-process.ts'
import { startFailingProxy } from '../../typescript/test/helpers/failing-proxy.ts'
import { startService } from '../../typescript/test/helpers/service.ts'
import { environment, install } from './jobs.ts'
import { recipes } from './systems.ts'

const run = promisify(execFile)
const runSmall = startSmallProcesses()
t.jobs = 2
t.setTimeout(600_000)

t.test('a bare repository mirrors every push', async (t) => {
  const service = await startService(t)
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'bare-')))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  git(folder, 'init', '--quiet', '--bare', 'origin.git')
  cpSync(join(recipes, 'post-receive'), join(folder, 'origin.git/hooks/post-receive'))
  const { COMMIT_STATUS_URL: url, COMMIT_STATUS_TOKEN: token } = environment(service)
  writeFileSync(
    join(folder, 'env'),
    `COMMIT_STATUS_URL=${url}\nCOMMIT_STATUS_REPO=acme/rocket\nCOMMIT_STATUS_TOKEN=${token}\n`,
    { mode: 0o600 },
  )
  git(folder, 'init', '--quiet', '--initial-branch=main', 'work')
  const work = join(folder, 'work')
  git(
    work,
    '-c',
    'user.name=a',
    '-c',
    'user.email=a@example.org',
    'commit',
    '--quiet',
    '--allow-empty',
    '-m',
    'x',
  )
  const sha = git(work, 'rev-parse', 'HEAD')
  const { stderr } = await run('git', ['push', '../origin.git', 'HEAD:main', 'HEAD:refs/changes/01/1/1'], {
    cwd: work,
    env: { PATH: process.env.PATH, HOME: folder, COMMIT_STATUS_ENV: join(folder, 'env') },
  })
  t.notMatch(stderr, /not updated/)
  t.equal((await service.server.report('acme/rocket', sha, { state: 'success' }, service.token)).status, 201)
  t.match(git(service.path, 'for-each-ref'), /refs\/changes\/01\/1\/1/)
})

t.test('a bare repository refuses what the branch rules do not allow', async (t) => {
  const service = await startService(t, { commits: 0 })
  const { server, token } = service
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'gate-')))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const settings = `COMMIT_STATUS_URL=${server.url}\nCOMMIT_STATUS_REPO=acme/rocket\nCOMMIT_STATUS_TOKEN=${token}\n`
  writeFileSync(join(folder, 'env'), settings, { mode: 0o600 })
  const cli = resolve(recipes, '../typescript/src/cli/main.ts')
  install(folder)
  const repository = await server.store.repositories.get('acme', 'rocket')
  await asAdministrator(server.store).rules.set(repository, {
    refPattern: 'main',
    required: ['ci/*', 'lint'],
    bypass: [],
  })
  await asAdministrator(server.store).rules.set(repository, {
    refPattern: '*-stable',
    required: ['soak'],
    bypass: [],
  })
  await asAdministrator(server.store).rules.set(repository, {
    refPattern: 'refs/tags/r*',
    required: ['release'],
    bypass: [],
  })
  git(folder, 'init', '--quiet', '--initial-branch=main', 'work')
  const work = join(folder, 'work')
  const commit = (message: string) => {
    git(work, 'commit', '--quiet', '--allow-empty', '-m', message)
    return git(work, 'rev-parse', 'HEAD')
  }
  const report = (sha: string, context: string, state: string) =>
    server.report('acme/rocket', sha, { context, state }, token)

  for (const hook of ['pre-receive', 'update']) {
    const origin = join(folder, `${hook}.git`)
    git(folder, 'init', '--quiet', '--bare', origin)
    git(origin, 'config', 'receive.autogc', 'false')
    cpSync(join(recipes, 'post-receive'), join(origin, 'hooks/post-receive'))
    cpSync(join(recipes, hook), join(origin, 'hooks', hook))
    const pushEnvironment = {
      ...minimalEnvironment(),
      PATH: `${folder}:${process.env.PATH}`,
      HOME: folder,
      COMMIT_STATUS_ENV: join(folder, 'env'),
      ...(hook === 'pre-receive' && { GL_REPO: 'acme/rocket' }),
    }
    const push = async (...args: string[]) =>
      (await runSmall(work, ['git', 'push', origin, ...args], pushEnvironment, '')).stderr
    const tips = () => git(origin, 'for-each-ref', '--format=%(refname:short)')
    const reasons = (stderr: string) =>
      stderr
        .split('\n')
        .flatMap((line) => line.split('remote: commit-status: ').slice(1))
        // `gate` prints a space for a line separator.
        .map((reason) => reason.trim().replace('\u2028', ' '))
        .sort()
    const first = commit(`first of ${hook}`)
    t.match(await push('HEAD:topic'), /new branch/, 'the first push to an empty repository')
    t.match(await push('HEAD:main'), /main: ci\/\* has not reported, lint has not reported *\n/)
    await report(first, 'ci/test', 'success')
    await report(first, 'lint', 'failure')
    t.match(await push('HEAD:main'), /main: lint reported failure/)
    await report(first, 'lint', 'success')
    t.match(await push('HEAD:main'), /new branch/)
    const next = commit(`next of ${hook}`)
    const mixed = await push('HEAD:main', 'HEAD:other', 'HEAD:refs/tags/v1')
    t.match(
      mixed,
      hook === 'update' ? /push it to another branch first/ : /main: ci\/\* has not reported, lint has not/,
      'a new commit',
    )
    t.equal(tips(), hook === 'update' ? 'main\nother\ntopic\nv1' : 'main\ntopic')
    await push('HEAD:topic')
    await report(next, 'ci/test', 'success')
    await report(next, 'lint', 'success')
    t.match(await push(':main'), /main: a branch with required checks cannot be deleted/)
    git(work, 'commit', '--quiet', '--amend', '--allow-empty', '-m', `other next of ${hook}`)
    t.match(await push(`${next}:main`), /-> main/)
    for (const [alias, branch] of [
      ['refs/heads/master', 'main'],
      ['refs/aliases/master', 'main'],
      ['refs/heads/first-stable', 'topic'],
      ['refs/heads/later-stable', 'later'],
      ['refs/heads/chain-stable', 'link'],
      ['refs/heads/link', 'end'],
    ] as const)
      git(origin, 'symbolic-ref', alias, `refs/heads/${branch}`)
    const [forced, unsoaked] = [
      'main: a branch with required checks cannot be pushed to by force',
      'stable: soak has not reported',
    ]
    const unknown =
      hook === 'update'
        ? `stable: ${git(work, 'rev-parse', 'HEAD')} has not been reported on; push it to another branch first`
        : unsoaked
    // git asks about one of several names of a ref.
    t.strictSame(
      reasons(await push('--force', 'HEAD:main', 'HEAD:topic', 'HEAD:later', 'HEAD:end')),
      [forced, forced.replace('main', 'first-stable'), `later-${unknown}`, `chain-${unknown}`].sort(),
    )
    const aliases = ['heads/master', 'aliases/master', 'heads/link'].map((ref) => `HEAD:refs/${ref}`)
    t.strictSame(
      reasons(await push('--force', ...aliases)),
      [forced, forced, `chain-${unknown}`].sort(),
      'refs that lead there',
    )
    t.strictSame(reasons(await push('--force', 'HEAD:chain-stable')), [`chain-${unknown}`])
    t.equal(git(origin, 'rev-parse', 'main'), next)
    git(work, 'replace', '--graft', 'HEAD', next)
    t.match(await push(`${next}:refs/heads/free`, 'refs/replace/*'), /new branch/)

    const tree = git(work, 'rev-parse', 'HEAD^{tree}')
    git(work, 'tag', '--force', 'r1', next)
    git(work, 'tag', '--force', '--annotate', '--message=x', 'r2', 'r1')
    git(work, 'tag', '--force', '--annotate', '--message=x', 'r3', 'r2')
    git(work, 'tag', '--force', 'r4', tree)
    const names = ['r1', 'r2', 'r3']
    t.strictSame(
      reasons(await push('--force', 'HEAD:main', `${next}:refs/heads/1\u2028-stable`, ...names, 'r4')),
      [
        forced,
        `1 -${unsoaked}`,
        ...names.map((name) => `refs/tags/${name}: release has not reported`),
        'refs/tags/r4: a tag with required checks must name a commit',
      ].sort(),
      'whatever replaces commits, a name with a line separator, and tags',
    )
    git(work, 'replace', '--delete', 'HEAD')
    t.notMatch(tips(), '\u2028')
    t.equal(git(origin, 'rev-parse', 'main'), next)
    await report(next, 'release', 'success')
    const created = await push(...names)
    for (const name of names) t.match(created, new RegExp(`new tag.* ${name}\\n`), name)
    git(origin, 'symbolic-ref', 'refs/aliases/r1', 'refs/tags/r1')
    git(origin, 'symbolic-ref', 'refs/tags/r5', 'refs/tags/x5')
    const changes = [`${first}:refs/tags/r1`, 'r3:refs/tags/r2', ':r3', 'r4:refs/tags/x5']
    t.strictSame(reasons(await push('--force', ...changes)), [
      'refs/tags/r1: a tag with required checks cannot be moved',
      'refs/tags/r2: a tag with required checks cannot be moved',
      'refs/tags/r3: a tag with required checks cannot be deleted',
      'refs/tags/r5: a tag with required checks must name a commit',
    ])
    t.match(await push('--force', `${first}:refs/aliases/r1`), /refs\/tags\/r1: a tag with required checks/)
    t.equal(git(origin, 'rev-parse', 'r1'), next)
  }
  const proxy = await startFailingProxy(t, server.url)
  proxy.plan({ status: 503 })
  const env = {
    ...environment(service),
    COMMIT_STATUS_URL: server.url,
    COMMIT_STATUS_ENV: join(folder, 'env'),
    COMMIT_STATUS_TIMEOUT: '1s',
  }
  writeFileSync(join(folder, 'env'), settings.replace(server.url, proxy.url))
  const updated = join(folder, 'update.git')
  const tip = git(updated, 'rev-parse', 'main')
  await run('sh', [join(recipes, 'update'), 'refs/heads/main', tip, tip], { cwd: updated, env })
  t.strictSame(
    proxy.passages.slice(0, 2).map(({ status }) => status),
    [503, 200],
    'an answer that curl asked for again counts',
  )
  const admin = { ...env, GL_REPO: 'gitolite-admin', COMMIT_STATUS_URL: 'http://127.0.0.1:1' }
  await run('sh', [join(recipes, 'pre-receive')], { cwd: updated, env: admin })
  const update = ['refs/heads/main', '0'.repeat(40), 'a'.repeat(40)]
  const hooks = [
    [process.execPath, cli, 'gate', '--branch-rules', '--repo', 'acme/rocket'],
    ['sh', join(recipes, 'update')],
  ] as const
  const outcomes = (cwd: string) =>
    Promise.all(
      hooks.map(([program, ...args]) =>
        run(program, [...args, ...update], { cwd, env }).catch(({ code, stderr }) => [code, stderr]),
      ),
    )
  const unread = [1, /main: its repository cannot be read/]
  t.match(await outcomes(folder), [unread, unread], 'refused where there is no repository')
  env.COMMIT_STATUS_URL = 'http://127.0.0.1:1'
  writeFileSync(join(folder, 'env'), settings.replace(server.url, env.COMMIT_STATUS_URL))
  const unanswered = [1, /main: cannot read its rules/]
  t.match(
    await outcomes(join(folder, 'update.git')),
    [unanswered, unanswered],
    'refused while the server cannot be reached',
  )
})

import { execFile } from 'node:child_process'
import {
  appendFileSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parse } from 'yaml'
import { asAdministrator } from '../../../test/helpers/changes.ts'
import { git, importCommits } from '../../../test/helpers/git.ts'
import { minimalEnvironment } from '../../../test/helpers/process.ts'
import { startService } from '../../typescript/test/helpers/service.ts'
import { checkout, environment, read, recipes } from './systems.ts'

const run = promisify(execFile)
const first = await startService(t, { commits: 7 })
t.jobs = 3
t.setTimeout(120_000)

t.test('each recipe fits on a screen, and the index names each', (t) => {
  const index = read('README.md')
  for (const name of readdirSync(recipes).filter((name) => name !== 'README.md' && name !== 'test')) {
    // `update` takes most: it decides as the server does.
    t.ok(read(name).split('\n').length <= 61, name)
    t.match(index, `(${name})`)
  }
  t.end()
})

t.test('secrets are never between double quotes of Groovy', (t) => {
  t.notMatch(read('Jenkinsfile'), /sh\s+"/)
  t.end()
})

t.test('Argo CD notifications', async (t) => {
  const { server, token, commit } = await first.again()
  const { data } = parse(read('argocd-notifications.yaml'))
  const { url, headers } = parse(data['service.webhook.commit-status'])
  const values: Record<string, string> = {
    'app.status.operationState.syncResult.revision': commit.sha,
    'app.metadata.name': 'rocket',
  }
  const annotation = '{{index .app.metadata.annotations "commit-status/repository"}}'
  const render = (text: string) =>
    text
      .replace(annotation, 'acme/rocket')
      .replace(/\{\{\.([\w.]+)\}\}/g, (_match, name) => values[name] ?? '')
  for (const [template, state] of [
    ['failed', 'failure'],
    ['deployed', 'success'],
  ]) {
    const { method, path, body } = parse(data[`template.commit-status-${template}`]).webhook['commit-status']
    t.ok(data[`trigger.commit-status-${template}`].includes(`send: [commit-status-${template}]`))
    const answer = await fetch(url.replace('https://status.example.org', server.url) + render(path), {
      method,
      headers: headers.map(({ name, value }: { name: string; value: string }) => [
        name,
        value.replace('$commit-status-token', token),
      ]),
      body: render(body),
    })
    t.match([answer.status, await answer.json()], [201, { state, context: 'deploy/rocket' }])
  }
})

t.test('Octokit', async (t) => {
  const { server, token, commit, stored } = await first.again()
  const env = { ...minimalEnvironment(), COMMIT_STATUS_URL: server.url, COMMIT_STATUS_TOKEN: token }
  const args = [join(recipes, 'octokit.mjs'), commit.owner, commit.repo, commit.sha]
  t.equal((await run(process.execPath, args, { env })).stdout, 'success\n')
  t.strictSame(await stored(), ['octokit success'])
})

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
    const push = (...args: string[]) =>
      run('git', ['push', origin, ...args], {
        cwd: work,
        env: {
          ...minimalEnvironment(),
          PATH: `${folder}:${process.env.PATH}`,
          HOME: folder,
          COMMIT_STATUS_ENV: join(folder, 'env'),
          ...(hook === 'pre-receive' && { GL_REPO: 'acme/rocket' }),
        },
      }).then(
        ({ stderr }) => stderr,
        ({ stderr }) => stderr,
      )
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
  const env = {
    ...environment(service),
    COMMIT_STATUS_URL: server.url,
    COMMIT_STATUS_ENV: join(folder, 'env'),
    COMMIT_STATUS_TIMEOUT: '1s',
  }
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

/** Puts the command line into a folder of PATH, as an image does that has it installed. */
function install(folder: string): void {
  const cli = resolve(recipes, '../typescript/src/cli/main.ts')
  const program = `#!/bin/sh\nexec ${process.execPath} ${cli} "$@"\n`
  writeFileSync(join(folder, 'commit-status'), program, { mode: 0o755 })
}

t.test('a deploy gate', async (t) => {
  const service = await first.again()
  const cwd = checkout(t, service)
  install(cwd)
  const own = environment(service)
  const env = { ...own, GATE_TIMEOUT: '1s', PATH: `${cwd}:${own.PATH}` }
  const gate = () =>
    run(join(recipes, 'deploy-gate'), [service.commit.sha, 'echo', 'deployed'], { cwd, env }).then(
      ({ stdout }) => stdout,
      ({ code }) => code,
    )
  const report = (context: string, state: string) =>
    service.server.report('acme/rocket', service.commit.sha, { context, state }, service.token)
  await report('ci/all (pull_request main)', 'success')
  t.equal(await gate(), 4)
  await report('ci/all (push main)', 'success')
  t.match(await gate(), /deployed\n$/)
})

t.test('the last commit that passed is deployed, and red branches are named', async (t) => {
  const service = await first.again()
  const { server, token, commit } = service
  const cwd = checkout(t, service)
  install(cwd)
  const own = environment(service)
  const env = { ...own, COMMIT_STATUS_REPO: 'acme/rocket', PATH: `${cwd}:${own.PATH}` }
  const runRecipe = (name: string, ...args: string[]) =>
    run(join(recipes, name), args, { cwd, env }).then(
      ({ stdout }) => stdout,
      ({ code }) => code,
    )
  const branch = `deployed-${commit.sha.slice(0, 8)}`
  git(service.path, 'update-ref', `refs/heads/${branch}`, commit.sha)
  const deploy = () => runRecipe('deploy-last-passed', branch, 'echo', 'deployed')
  t.equal(await deploy(), 7, 'no rule')
  const repository = await server.store.repositories.get('acme', 'rocket')
  await asAdministrator(server.store).rules.set(repository, {
    refPattern: branch,
    required: ['all'],
    bypass: [],
  })
  t.equal(await deploy(), 3, 'none has passed')
  const report = (state: string) => server.report('acme/rocket', commit.sha, { context: 'all', state }, token)
  await report('failure')
  t.match(await runRecipe('red-branches', branch), `failure    ${commit.sha}  ${branch}\n`)
  await report('success')
  t.equal(await deploy(), `deployed ${commit.sha}\n`)
  t.equal(await runRecipe('red-branches', branch), '')

  const [older = '', newer = ''] = importCommits(service.path, 2)
  git(service.path, 'update-ref', `refs/heads/${branch}`, newer)
  for (const sha of [older, newer])
    await server.report('acme/rocket', sha, { context: 'all', state: 'success' }, token)
  const log = join(cwd, 'deployed')
  const fail = () => runRecipe('deploy-last-passed', branch, 'sh', '-c', `echo "$1" >>${log}; exit 9`, 'sh')
  t.equal(await fail(), 9, 'the code of the command')
  t.equal(readFileSync(log, 'utf8'), `${newer}\n${older}\n`, 'one commit before, once')
  t.equal(await deploy(), `deployed ${older}\n`, 'the commit before is not marked, the first one is')
  const { json } = await server.read('acme/rocket', newer)
  t.match(json, {
    statuses: [
      { context: 'all', state: 'success' },
      { context: 'deploy', state: 'failure' },
    ],
  })
})

t.test('a release publishes only what the push of its tag accepted', async (t) => {
  const service = await first.again()
  const { server, token, commit, path } = service
  const cwd = checkout(t, service)
  install(cwd)
  appendFileSync(join(cwd, 'Makefile'), 'publish:\n\t@echo published\n')
  git(cwd, 'checkout', '--quiet', commit.sha)
  git(cwd, 'remote', 'set-url', 'origin', `${server.url}/acme/rocket.git`)
  git(cwd, 'config', 'http.extraHeader', `Authorization: Bearer ${token}`)
  for (const name of ['user.name', 'user.email']) git(cwd, 'config', name, 'release')
  const own = environment(service)
  const env = { ...own, RELEASE_TIMEOUT: '1s', PATH: `${cwd}:${own.PATH}` }
  const release = (version: string) =>
    run(join(recipes, 'release'), [version], { cwd, env }).then(
      ({ stdout }) => [0, /published\n$/.test(stdout)],
      ({ code, stdout }) => [code, /published/.test(stdout)],
    )
  t.strictSame(await release('1'), [7, false], 'no rule protects the tag')
  const repository = await server.store.repositories.get('acme', 'rocket')
  const rule = { refPattern: 'refs/tags/v*', required: ['ci/all'], bypass: [] }
  await asAdministrator(server.store).rules.set(repository, rule)
  t.strictSame(await release('1'), [4, false], 'nothing has reported')
  const report = (state: string) =>
    server.report('acme/rocket', commit.sha, { context: 'ci/all', state }, token)
  await report('failure')
  t.strictSame(await release('1'), [1, false])
  t.equal(git(cwd, 'tag') + git(path, 'tag'), '')
  await report('success')
  t.strictSame(await release('1'), [0, true])
  t.equal(git(path, 'rev-parse', 'v1^{commit}'), commit.sha)

  git(path, 'tag', 'v2', 'main')
  t.strictSame(await release('2'), [1, false], 'somebody else has created the tag')
  t.equal(git(cwd, 'tag'), 'v1', 'a refused tag is not kept')
})

t.test('a merge button that obeys the rules', async (t) => {
  const service = await first.again()
  const { server, token, commit } = service
  const cwd = checkout(t, service)
  install(cwd)
  const own = environment(service)
  const repository = await server.store.repositories.get('acme', 'rocket')
  const [step] = parse(read('github-merge-gate.yml')).jobs['merge-gate'].steps
  const gates: Record<string, [script: string, env: Record<string, string>]> = {
    'ci/all (pull_request gated)': [
      step.run,
      {
        GITHUB_ACTIONS: 'true',
        GITHUB_EVENT_NAME: 'pull_request',
        GITHUB_BASE_REF: 'gated',
        SHA: commit.sha,
      },
    ],
    'ci/all (merge_request_event gated)': [
      parse(read('gitlab-merge-gate.yml'))['merge-gate'].script.join('\n'),
      { GITLAB_CI: 'true', CI_MERGE_REQUEST_TARGET_BRANCH_NAME: 'gated', CI_COMMIT_SHA: commit.sha },
    ],
  }
  for (const [required, [script, variables]] of Object.entries(gates)) {
    await asAdministrator(server.store).rules.set(repository, {
      refPattern: 'gated',
      required: [required],
      bypass: [],
    })
    const gate = (url = server.url) => {
      const place = { COMMIT_STATUS_URL: url, COMMIT_STATUS_REPO: 'acme/rocket', COMMIT_STATUS_TIMEOUT: '1s' }
      const env = { ...own, ...variables, ...place, PATH: `${cwd}:${own.PATH}` }
      const text = script.replace('30m', '1s').replace('2m', '1s')
      return run('sh', ['-ec', text], { cwd, env }).then(
        () => 0,
        ({ code }) => code,
      )
    }
    const report = (context: string, state: string) =>
      server.report('acme/rocket', commit.sha, { context, state }, token)
    await report('ci/all (push gated)', 'success')
    t.not(await gate(), 0, `${required} has not reported`)
    await report(required, 'failure')
    t.equal(await gate(), 1)
    await report(required, 'success')
    t.equal(await gate(), 0)
    t.not(await gate('http://127.0.0.1:1'), 0, 'the server away')
  }
})

import { execFile } from 'node:child_process'
import { appendFileSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parse } from 'yaml'
import { asAdministrator } from '../../../test/helpers/changes.ts'
import { git, importCommits } from '../../../test/helpers/git.ts'
import { minimalEnvironment } from '../../../test/helpers/process.ts'
import { startService } from '../../typescript/test/helpers/service.ts'
import { checkout, environment, install } from './jobs.ts'
import { read, recipes } from './systems.ts'

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
  t.match(data['trigger.commit-status-deployed'], 'oncePer: app.status.operationState.startedAt\n')
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
  t.equal(await runRecipe('deploy-last-passed', branch), 2, 'no command')
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
  await server.report('acme/rocket', newer, { context: 'deploy', state: 'success' }, token)
  const other = await runRecipe(
    'deploy-last-passed',
    branch,
    'sh',
    '-c',
    `[ "$1" = ${older} ] && exit 8; exit 9`,
    'sh',
  )
  t.equal(other, 9, 'the code of the first command')
  const [last = ''] = importCommits(service.path, 1)
  const alone = `${branch}-alone`
  git(service.path, 'update-ref', `refs/heads/${alone}`, last)
  await asAdministrator(server.store).rules.set(repository, {
    refPattern: alone,
    required: ['all'],
    bypass: [],
  })
  await server.report('acme/rocket', last, { context: 'all', state: 'success' }, token)
  t.equal(await runRecipe('deploy-last-passed', alone, 'sh', '-c', 'exit 9'), 9, 'none before it')
  await t.rejects(run(join(recipes, 'deploy-last-passed'), [], { env }), /deploy-last-passed BRANCH COMMAND/)
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
  await report('success')
  git(cwd, 'add', 'Makefile')
  t.strictSame(await release('1'), [1, false], 'what would be published is not the commit')
  git(cwd, 'reset', '--quiet')
  t.equal(git(cwd, 'tag') + git(path, 'tag'), '')
  const real = join(cwd, 'commit-status')
  renameSync(real, `${real}.real`)
  writeFileSync(real, `#!/bin/sh\n"$0.real" "$@" && git add Makefile\n`, { mode: 0o755 })
  t.strictSame(await release('1'), [1, false], 'the work tree changed during the wait')
  git(cwd, 'reset', '--quiet')
  renameSync(`${real}.real`, real)
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
      const place = {
        COMMIT_STATUS_URL: url,
        COMMIT_STATUS_REPO: 'acme/rocket',
        COMMIT_STATUS_TIMEOUT: url === server.url ? '20s' : '1s',
      }
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

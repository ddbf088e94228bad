import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import envCi from 'env-ci'
import t from 'tap'
import { git } from '../../../../test/helpers/git.ts'
import { resolveCommit } from '../../src/cli/checkout.ts'
import { findContext } from '../../src/cli/context.ts'
import { CI_VARIABLES, findJob, type Job } from '../../src/cli/job.ts'
import { call, callIn, commandLine } from '../helpers/command-line.ts'
import { contexts, foreignEvents } from '../helpers/contexts.ts'
import { startService } from '../helpers/service.ts'

const sha = '2c26b46b68ffc68ff99b453c1d30413413422d70'
const merge = '0123456789012345678901234567890123456789'
const repository = 'acme/rocket'
const readme = readFileSync(resolve(import.meta.dirname, '../../README.md'), 'utf8')
/** The rows of the README's table of CI systems. */
const systemRows =
  readme
    .split('## CI systems')[1]
    ?.split('\n## ')[0]
    ?.match(/^\| (?!CI system|---).+/gm) ?? []
const folder = mkdtempSync(join(tmpdir(), 'surroundings-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))
const event = join(folder, 'event.json')
writeFileSync(event, JSON.stringify({ pull_request: { number: 7, head: { sha } } }))

const github = {
  GITHUB_ACTIONS: 'true',
  GITHUB_REPOSITORY: repository,
  GITHUB_SHA: sha,
  GITHUB_RUN_ID: '5',
  GITHUB_SERVER_URL: 'https://forge.example.org',
}
const gitlab = {
  GITLAB_CI: 'true',
  CI_COMMIT_SHA: sha,
  CI_PROJECT_PATH: repository,
  CI_PROJECT_URL: 'https://forge.example.org/acme/rocket',
  CI_JOB_ID: '5',
}
const link = 'https://ci.example.org/5'

/** By the name that the README's table has. */
const systems: Record<string, [NodeJS.ProcessEnv, Job]> = {
  'GitHub Actions': [
    github,
    { repository, sha, targetUrl: 'https://forge.example.org/acme/rocket/actions/runs/5' },
  ],
  'Forgejo, Gitea': [
    { ...github, GITEA_ACTIONS: 'true', GITHUB_RUN_ID: '1905', GITHUB_RUN_NUMBER: '12' },
    { repository, sha, targetUrl: 'https://forge.example.org/acme/rocket/actions/runs/12' },
  ],
  'GitLab CI': [gitlab, { repository, sha, targetUrl: 'https://forge.example.org/acme/rocket/-/jobs/5' }],
  Jenkins: [
    { JENKINS_URL: 'https://j', GIT_COMMIT: sha, GIT_URL: 'git@host:acme/rocket.git', BUILD_URL: link },
    { repository, sha, targetUrl: link },
  ],
  Woodpecker: [
    {
      CI: 'woodpecker',
      CI_COMMIT_SHA: sha,
      CI_REPO_OWNER: 'acme',
      CI_REPO_NAME: 'rocket',
      CI_STEP_URL: link,
    },
    { repository, sha, targetUrl: link },
  ],
  Drone: [
    {
      DRONE: 'true',
      DRONE_COMMIT_SHA: sha,
      DRONE_REPO_OWNER: 'acme',
      DRONE_REPO_NAME: 'rocket',
      DRONE_BUILD_LINK: link,
    },
    { repository, sha, targetUrl: link },
  ],
  Buildkite: [
    {
      BUILDKITE: 'true',
      BUILDKITE_COMMIT: sha,
      BUILDKITE_REPO: 'https://host/acme/rocket.git',
      BUILDKITE_BUILD_URL: link,
    },
    { repository, sha, targetUrl: link },
  ],
  'Azure Pipelines': [
    {
      BUILD_BUILDURI: 'vstfs:///Build/Build/5',
      BUILD_SOURCEVERSION: sha,
      BUILD_REPOSITORY_URI: 'https://example@dev.azure.com/example/acme/_git/rocket',
      SYSTEM_COLLECTIONURI: 'https://dev.azure.com/example/',
      SYSTEM_TEAMPROJECT: 'acme',
      BUILD_BUILDID: '5',
    },
    { repository, sha, targetUrl: 'https://dev.azure.com/example/acme/_build/results?buildId=5' },
  ],
  CircleCI: [
    {
      CIRCLECI: 'true',
      CIRCLE_SHA1: sha,
      CIRCLE_PROJECT_USERNAME: 'acme',
      CIRCLE_PROJECT_REPONAME: 'rocket',
      CIRCLE_BUILD_URL: link,
    },
    { repository, sha, targetUrl: link },
  ],
  'Travis CI': [
    { TRAVIS: 'true', TRAVIS_COMMIT: sha, TRAVIS_REPO_SLUG: repository, TRAVIS_JOB_WEB_URL: link },
    { repository, sha, targetUrl: link },
  ],
}

for (const [name, [env, expected]] of Object.entries(systems)) {
  t.test(`${name} tells repository, commit and job`, async (t) => {
    t.strictSame(await findJob(env, folder), expected)
  })
}

t.test('a context from the job, if no other job has it', (t) => {
  for (const [env, context] of contexts) {
    if (context === undefined)
      t.throws(() => findContext(undefined, env), /missing context: give --context NAME/)
    else t.equal(findContext(undefined, env), context)
    t.equal(findContext('given', env), 'given')
  }
  t.throws(() => findContext('', {}), /missing context/)
  t.end()
})

t.test("the README's table names these systems", async (t) => {
  t.strictSame(
    systemRows.map((row) => row.split('|')[1]?.trim()),
    Object.keys(systems),
  )
})

t.test('of a merge that nobody pushed, the commit under review counts', async (t) => {
  const pull = {
    ...github,
    GITHUB_SHA: merge,
    GITHUB_EVENT_NAME: 'pull_request',
    GITHUB_EVENT_PATH: event,
  }
  t.match(await findJob(pull, folder), { sha })
  t.match(await findJob({ ...pull, FORGEJO_ACTIONS: 'true' }, folder), { sha })
  t.match(
    await findJob({ ...gitlab, CI_COMMIT_SHA: merge, CI_MERGE_REQUEST_SOURCE_BRANCH_SHA: sha }, folder),
    { sha },
  )
  t.match(
    await findJob(
      { TF_BUILD: 'True', BUILD_SOURCEVERSION: merge, SYSTEM_PULLREQUEST_SOURCECOMMITID: sha },
      folder,
    ),
    {
      sha,
    },
  )
  const travis = { TRAVIS: 'true', TRAVIS_COMMIT: merge, TRAVIS_REPO_SLUG: repository }
  t.match(await findJob({ ...travis, TRAVIS_PULL_REQUEST_SHA: sha }, folder), { sha })
  t.match(await findJob({ ...travis, TRAVIS_PULL_REQUEST_SHA: '' }, folder), { sha: merge })
  const commits = systemRows.map((row) => row.split(/ *\| */).slice(1, 4))
  t.same(
    commits.filter(([, , from]) => from !== 'yes').map(([system, , from]) => [system, from]),
    [
      ['GitHub Actions', 'yes; of a pull request its head, not the merge'],
      ['Forgejo, Gitea', 'yes; of a pull request its head, not the merge'],
      ['GitLab CI', 'yes; of a merged result the source branch'],
      ['Azure Pipelines', 'yes; of a pull request its source'],
      ['Travis CI', 'yes; of a pull request its head, not the merge'],
    ],
  )
})

t.test('an event that is about another commit than the one checked out needs --sha', async (t) => {
  const { server, token, path, commit } = await startService(t)
  const cwd = join(folder, 'foreign')
  git(folder, 'clone', '--quiet', path, cwd)
  const place = {
    ...github,
    GITHUB_EVENT_PATH: event,
    COMMIT_STATUS_URL: server.url,
    COMMIT_STATUS_TOKEN: token,
  }
  for (const name of foreignEvents) {
    const env = { ...place, GITHUB_EVENT_NAME: name }
    t.match(await findJob(env, cwd), { sha: undefined, repository }, name)
    const report = ['report', '--context', name, '--state', 'success']
    const missing = new RegExp(`missing commit: .*event "${name}" .*; give --sha`)
    t.match(await call(report, env), { code: 2, stderr: missing })
    t.match(await call([...report, '--sha', commit.sha], env), { code: 0 })
  }
  for (const name of [
    'push',
    'merge_group',
    'release',
    'deployment',
    'repository_dispatch',
    'pull_request_review',
  ]) {
    t.match(await findJob({ ...github, GITHUB_EVENT_NAME: name }, cwd), { sha }, name)
  }
})

t.test('env-ci tells CI systems apart by the variables that the client knows', (t) => {
  const read = new Set<string>()
  const get = (_: object, name: string | symbol) => void read.add(String(name))
  envCi({ env: new Proxy({}, { get, ownKeys: () => [] }), cwd: folder })
  t.strictSame([...read], CI_VARIABLES)
  t.end()
})

t.test('a GitLab subgroup needs a name of two parts', async (t) => {
  const { server, token, commit } = await startService(t)
  const env = { ...gitlab, CI_PROJECT_PATH: 'acme/team/rocket', CI_COMMIT_SHA: commit.sha }
  t.match(await findJob(env, folder), { repository: undefined, foreignName: 'acme/team/rocket' })
  const place = { ...env, COMMIT_STATUS_URL: server.url, COMMIT_STATUS_TOKEN: token }
  const refused = await call(['get'], place)
  t.match(refused, {
    code: 2,
    stderr: /"acme\/team\/rocket" is not OWNER\/NAME: give --repo or set COMMIT_STATUS_REPO/,
  })
  t.match(await call(['get'], { ...place, COMMIT_STATUS_REPO: repository }), { code: 0 })
})

t.test('what is missing, or could not be right, is left out', async (t) => {
  const nothing = { repository: undefined, sha: undefined, targetUrl: undefined }
  t.strictSame(await findJob({ GITHUB_ACTIONS: 'true' }, folder), nothing)
  t.strictSame(await findJob({ GITLAB_CI: 'true' }, folder), nothing)
  t.strictSame(await findJob({ DRONE: 'true', DRONE_BUILD_LINK: 'https://u:secret@host/1' }, folder), nothing)
  t.strictSame(
    await findJob({ BUILDKITE: 'true', BUILDKITE_COMMIT: 'HEAD', BUILDKITE_REPO: '/srv/x' }, folder),
    nothing,
  )
  const lost = {
    ...github,
    GITHUB_EVENT_NAME: 'pull_request_target',
    GITHUB_EVENT_PATH: join(folder, 'none'),
  }
  t.match(await findJob(lost, folder), nothing, 'env-ci fails here')
  const long = `https://ci.example.org/${'x'.repeat(2_048)}`
  t.match(await findJob({ JENKINS_URL: 'https://j', BUILD_URL: long }, folder), { targetUrl: undefined })
})

t.test('the checkout tells the rest, and options override all of it', async (t) => {
  const { server, token, path, commit } = await startService(t)
  const checkout = join(folder, 'checkout')
  git(folder, 'clone', '--quiet', path, checkout)
  git(checkout, 'remote', 'set-url', 'origin', 'https://user:secret@git.example.org/acme/rocket.git')
  t.strictSame(await findJob({}, checkout), { repository, sha: commit.sha, targetUrl: undefined })

  const env = { ...gitlab, CI_COMMIT_SHA: merge, COMMIT_STATUS_URL: server.url, COMMIT_STATUS_TOKEN: token }
  const report = ['report', '--context', 'a', '--state', 'success', '--json']
  const own = await callIn(checkout, [...report, '--sha', commit.sha], env)
  t.equal(own.code, 0)
  t.equal(JSON.parse(own.stdout).target_url, 'https://forge.example.org/acme/rocket/-/jobs/5')
  const given = ['--repo', repository, '--sha', commit.sha, '--target-url', link, '--url', server.url]
  const overridden = await call([...report, ...given], {
    ...env,
    CI_PROJECT_PATH: 'acme/other',
    COMMIT_STATUS_URL: 'http://127.0.0.1:1',
  })
  t.equal(JSON.parse(overridden.stdout).target_url, link)
  const plain = { COMMIT_STATUS_URL: server.url, COMMIT_STATUS_TOKEN: token }
  const found = await commandLine(t, report, { env: plain, cwd: checkout }).finished
  t.match(JSON.parse(found.stdout), { sha: commit.sha, target_url: null })
})

t.test('outside of CI git is started once for each thing that is not given', async (t) => {
  const { server, token, path, commit } = await startService(t)
  const [checkout, spy] = [join(folder, 'counted'), join(folder, 'spy')]
  git(folder, 'clone', '--quiet', path, checkout)
  git(checkout, 'remote', 'set-url', 'origin', 'https://git.example.org/acme/rocket.git')
  mkdirSync(spy)
  const calls = join(spy, 'calls')
  const program = `#!/bin/sh\necho "$*" >>'${calls}'\nPATH='${process.env.PATH}' exec git "$@"\n`
  writeFileSync(join(spy, 'git'), program, { mode: 0o755 })
  const env = { PATH: spy, COMMIT_STATUS_URL: server.url, COMMIT_STATUS_TOKEN: token }
  const report = ['report', '--context', 'a', '--state', 'success', '--json']
  const started = async (...args: string[]) => {
    writeFileSync(calls, '')
    const { stdout } = await commandLine(t, [...report, ...args], { env, cwd: checkout }).finished
    t.equal(JSON.parse(stdout).sha, commit.sha)
    const lines = readFileSync(calls, 'utf8').trim().split('\n')
    return lines.map((line) => / (rev-parse|config) /.exec(line)?.[1] ?? line).sort()
  }
  t.strictSame(await started('--sha', 'HEAD'), ['config', 'rev-parse'])
  t.strictSame(await started('--sha', 'HEAD', '--repo', repository), ['rev-parse'])
  t.strictSame(
    await started(),
    ['config', 'rev-parse', 'rev-parse'],
    'the id from the checkout is resolved like one of a CI system',
  )
})

t.test('a commit is given by any name that git resolves in the checkout', async (t) => {
  const { server, token, path, commits } = await startService(t, { commits: 2 })
  const checkout = join(folder, 'named')
  git(folder, 'clone', '--quiet', path, checkout)
  git(checkout, 'remote', 'set-url', 'origin', 'https://git.example.org/acme/rocket.git')
  const resolve = (name: string) => git(checkout, 'rev-parse', `${name}^{commit}`).toString().trim()
  git(checkout, 'tag', 'v1', 'HEAD^')
  const env = { COMMIT_STATUS_URL: server.url, COMMIT_STATUS_TOKEN: token }
  const [head, older] = [resolve('HEAD'), resolve('v1')]
  t.strictSame(new Set([head, older]), new Set(commits))
  await server.report(repository, older, { context: 'tagged', state: 'success' }, token)
  for (const name of ['v1', 'HEAD^', older.slice(0, 7)]) t.equal(resolveCommit(checkout, name), older, name)
  const found = await callIn(checkout, ['get', 'HEAD^', '--json'], env)
  t.match(JSON.parse(found.stdout).statuses, [{ context: 'tagged', sha: older }])
  const reported = ['report', '--context', 'a', '--sha', 'HEAD', '--state', 'success', '--json']
  const { stdout } = await callIn(checkout, reported, env)
  t.equal(JSON.parse(stdout).sha, head)
  const waited = await callIn(checkout, ['wait', 'v1', '--require', 'tagged'], env)
  t.match(waited, { code: 0, stdout: 'success: 1 success\n' })

  const unknown = await callIn(checkout, ['get', '--output=x'.slice(2)], env)
  t.match(unknown, { code: 2, stderr: /"output=x" is not a commit in this checkout; fetch it/ })
  const dashed = await callIn(checkout, ['get', '--sha=--all'], env)
  t.match(dashed, { code: 2, stderr: /"--all" is not a commit in this checkout/ })
  const outside = await callIn(folder, ['get', 'HEAD', '--repo', repository], env)
  t.match(outside, {
    code: 2,
    stderr: /"HEAD" is not a full commit id, and this folder is not in a git checkout/,
  })
})

import { execFile, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parse } from 'yaml'
import { runLines } from '../../../test/helpers/cli.ts'
import { freePort } from '../../../test/helpers/free-port.ts'
import { git } from '../../../test/helpers/git.ts'
import { startServer } from '../../../test/helpers/server.ts'
import { npmEnvironment } from '../../typescript/test/helpers/package.ts'
import { read, recipes } from './systems.ts'

const run = promisify(execFile)
const blocks = [...read('README.md').matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, , text = '']) => text)
const block = (start: string | RegExp) => blocks.find((text) => text.search(start) >= 0) ?? 'no such lines'
t.setTimeout(180_000)

/**
 * The status server as the README's lines set it up, and another git server with a repository on
 * `git daemon`.
 */
async function startBoth() {
  const server = await startServer(t)
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'mirror-')))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const administer = (text: string) => runLines(text, { DATA_DIR: server.dataDir })
  await server.createUser('acme')
  const printed = await administer(block('user create mirror'))
  const token = printed.trim().split('\n').at(-1) ?? ''

  git(folder, 'init', '--quiet', '--bare', '--initial-branch=main', 'other/acme/rocket.git')
  const other = join(folder, 'other/acme/rocket.git')
  const port = await freePort()
  const daemon = spawn(
    join(git(folder, '--exec-path'), 'git-daemon'),
    ['--export-all', '--reuseaddr', '--listen=127.0.0.1', `--port=${port}`, `--base-path=${folder}/other`],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  t.teardown(() => daemon.kill())
  const url = `git://127.0.0.1:${port}/acme/rocket.git`
  for (let attempt = 0; attempt < 100; attempt++) {
    const isUp = await run('git', ['ls-remote', url]).then(
      () => true,
      () => new Promise((resolve) => setTimeout(() => resolve(false), 100)),
    )
    if (isUp) break
  }

  git(folder, 'init', '--quiet', '--initial-branch=main', 'work')
  const work = join(folder, 'work')
  /** Commits, and pushes that to refs of the other server; returns the commit. */
  function push(...refs: string[]): string {
    git(work, 'commit', '--quiet', '--allow-empty', '-m', refs.join(' '))
    git(work, 'push', '--quiet', '--force', other, ...refs.map((ref) => `HEAD:${ref}`))
    return git(work, 'rev-parse', 'HEAD')
  }
  /** Empties the repository on the other server. */
  function deleteRefs(): void {
    for (const ref of git(other, 'for-each-ref', '--format=%(refname)').split('\n').filter(Boolean)) {
      git(other, 'update-ref', '-d', ref)
    }
  }
  const env = {
    ...npmEnvironment(),
    COMMIT_STATUS_URL: server.url,
    COMMIT_STATUS_REPO: 'acme/rocket',
    COMMIT_STATUS_TOKEN: token,
    GITHUB_REPOSITORY: 'acme/rocket',
    GIT_TERMINAL_PROMPT: '0',
    HOME: folder,
  }
  writeFileSync(join(folder, 'askpass'), '#!/bin/sh\necho "$COMMIT_STATUS_TOKEN"\n', { mode: 0o755 })
  /** Runs lines of the README or a recipe, with the server's address in place of the example's. */
  const sh = (cwd: string, text: string, more: Record<string, string> = {}) =>
    run(
      'sh',
      ['-ec', text.replaceAll('https://mirror@status.example.org', server.url.replace('//', '//mirror@'))],
      {
        cwd,
        env: { ...env, GIT_ASKPASS: join(folder, 'askpass'), ...more },
      },
    )
  /** Returns the refs of the repository on the status server. */
  const refs = async (...kinds: string[]) => {
    const url = `${server.url.replace('//', `//mirror:${token}@`)}/acme/rocket.git`
    const { stdout } = await run('git', ['ls-remote', url], { env })
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => line.split('\t')[1] ?? '')
    return lines.filter((ref) => ['heads', 'tags', ...kinds].includes(ref.split('/')[1] ?? ''))
  }
  const isKnown = async (sha: string) =>
    (await server.report('acme/rocket', sha, { state: 'success', context: 'ci/test' }, token)).status === 201
  return { server, folder, work, other, url, push, deleteRefs, sh, refs, isKnown, administer, env }
}

const { server, folder, work, other, url, push, deleteRefs, sh, refs, isKnown, administer, env } =
  await startBoth()

t.test('GitHub: a job pushes branches, tags and heads of pull requests', async (t) => {
  deleteRefs()
  const { steps } = parse(read('github-mirror.yml')).jobs.mirror
  t.match(steps[0], { uses: /^actions\/checkout@/, with: { 'fetch-depth': 0 } })
  /** What actions/checkout leaves: by default one commit. */
  async function job(name: string, ...depth: string[]) {
    await sh(folder, `git clone --quiet ${depth.join(' ')} ${url} ${name}`)
    return sh(join(folder, name), steps[1].run)
  }
  push('refs/heads/main')
  const tip = push('refs/heads/main', 'refs/heads/old', 'refs/tags/v1')
  const fork = push('refs/pull/7/head')
  await t.rejects(job('shallow', '--depth=1', '--no-single-branch'), /shallow/)
  t.notOk(await isKnown(tip))
  await job('full')
  t.strictSame(await refs('pull'), ['refs/heads/main', 'refs/heads/old', 'refs/pull/7/head', 'refs/tags/v1'])
  t.ok((await isKnown(tip)) && (await isKnown(fork)))
  git(other, 'update-ref', '-d', 'refs/heads/old')
  await job('again')
  t.strictSame(
    await refs('pull'),
    ['refs/heads/main', 'refs/pull/7/head', 'refs/tags/v1'],
    'what was deleted there',
  )
})

t.test('any other server: cron', async (t) => {
  deleteRefs()
  const settings = ['URL', 'REPO', 'TOKEN'] as const
  const text = settings.map((name) => `COMMIT_STATUS_${name}=${env[`COMMIT_STATUS_${name}`]}\n`).join('')
  writeFileSync(join(folder, 'env'), text, { mode: 0o600 })
  const mirror = () =>
    run(join(recipes, 'mirror'), [url], {
      env: {
        PATH: process.env.PATH,
        COMMIT_STATUS_ENV: join(folder, 'env'),
        COMMIT_STATUS_COPY: join(folder, 'copy'),
      },
    })
  const first = push('refs/heads/main', 'refs/heads/old', 'refs/tags/v1')
  await mirror()
  t.strictSame(await refs(), ['refs/heads/main', 'refs/heads/old', 'refs/tags/v1'])
  t.ok(await isKnown(first))

  await administer(block('--bypass mirror').replace('--bypass mirror', ''))
  git(other, 'update-ref', '-d', 'refs/heads/old')
  git(work, 'reset', '--quiet', '--soft', first)
  git(work, 'commit', '--quiet', '--amend', '--allow-empty', '-m', 'rewritten')
  const rewritten = push('refs/heads/main')
  await t.rejects(mirror(), /by force/)
  await administer(block('--bypass mirror'))
  await mirror()
  t.strictSame(await refs(), ['refs/heads/main', 'refs/tags/v1'])
  t.ok(await isKnown(rewritten), 'a branch with rules is rewritten by who bypasses them')
  // A commit that only the CI system has.
  git(work, 'commit', '--quiet', '--allow-empty', '-m', 'merge')
  const merge = git(work, 'rev-parse', 'HEAD')
  const cli = `${process.execPath} ${resolve(recipes, '../typescript/src/cli/main.ts')}`
  const lines = block('refs/ci/').replace('commit-status report', `${cli} report`)
  t.match(await sh(work, lines, { BUILD_ID: '5' }), {
    stdout: `acme/rocket ${merge} ci/test (merge) success\n`,
  })
  await mirror()
  t.ok((await refs('ci')).includes('refs/ci/5'), 'the mirror leaves it alone')
})

t.test('GitLab: the line of its push mirror', async (t) => {
  deleteRefs()
  const tip = push('refs/heads/main', 'refs/heads/old', 'refs/tags/v1', 'refs/merge-requests/7/head')
  await sh(other, block(/^git push --prune/))
  t.strictSame(await refs(), ['refs/heads/main', 'refs/heads/old', 'refs/tags/v1'])
  t.ok(await isKnown(tip))
  git(other, 'update-ref', '-d', 'refs/heads/old')
  await sh(other, block(/^git push --prune/))
  t.strictSame(await refs(), ['refs/heads/main', 'refs/tags/v1'])
})

t.test("Gerrit: the refs and the address of replication's configuration", async (t) => {
  deleteRefs()
  const tip = push('refs/heads/main')
  const patchSet = push('refs/changes/01/1/1')
  mkdirSync(join(folder, 'etc'))
  const get = (name: string, key: string) =>
    git(folder, 'config', '--file', `etc/${name}`, '--get-all', `remote.status.${key}`)
  writeFileSync(join(folder, 'etc/replication.config'), block('push = '))
  writeFileSync(join(folder, 'etc/secure.config'), block('password = '))
  t.equal(get('replication.config', 'mirror'), 'true')
  const url = get('replication.config', 'url').replace(/\$\{name\}/, 'acme/rocket')
  const address = url.replace('https://', `https://${get('secure.config', 'username')}@`)
  const specs = get('replication.config', 'push')
    .split('\n')
    .map((spec) => `'${spec}'`)
  await sh(other, `git push --quiet --prune ${address} ${specs.join(' ')}`)
  t.strictSame(await refs('changes'), ['refs/changes/01/1/1', 'refs/heads/main'])
  t.ok((await isKnown(tip)) && (await isKnown(patchSet)))
  t.equal(url.replace('https://status.example.org', server.url), `${server.url}/acme/rocket.git`)
})

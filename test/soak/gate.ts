import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import tap from 'tap'
import { basic, commit, git, tryGit } from '../git-http/client.ts'
import { workersIn } from '../git-http/raw.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { addReport } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'

/**
 * Pushes to a branch with rules from many clients at once while reports come in, and kills the
 * server in the middle of pushes. Shows that the branch only ever held commits that had been
 * reported as `success`, that it only moved forward, and that no process of a hook is left behind.
 */
const ROUNDS = 12
const CLIENTS = 8

tap.setTimeout(600_000)

tap.test('pushes to a branch with rules, reports and kills', async (t) => {
  const folder = temporaryFolder(t)
  const { store, options: place, createRepository, createToken } = await startServer(t)
  const repository = await createRepository('owner/gate', { private: true, commits: 0 })
  const authorization = basic('x', await createToken('owner'))
  mkdirSync(join(folder, 'tmp'))
  const start = () => startInstance(t, place, { TMPDIR: join(folder, 'tmp'), LOG_LEVEL: 'error' })
  await asAdministrator(store).rules.set(repository, {
    refPattern: 'main',
    required: ['ci/*', 'lint'],
    bypass: [],
  })
  // Every tip of the branch is on record.
  await git(repository.path, ['config', 'core.logAllRefUpdates', 'always'])
  const options = { authorization }
  const checkout = join(folder, 'work')
  await git(folder, ['init', '--quiet', '--initial-branch=base', checkout])
  await commit(checkout)
  const base = await git(checkout, ['rev-parse', 'HEAD'])
  const report = (sha: string, context: string, state: 'success' | 'failure' | 'pending') =>
    addReport({ store, repositoryId: repository.id, sha }, context, state)
  /** Commits for which all required contexts were `success` at some time. */
  const passed = new Set([base])
  await report(base, 'ci/test', 'success')
  await report(base, 'lint', 'success')

  let server = await start()
  let [accepted, refused, cut] = [0, 0, 0]
  let tip = base
  const first = await tryGit(
    checkout,
    ['push', `${server.url}/owner/gate.git`, `${base}:refs/heads/main`],
    options,
  )
  assert.equal(first.code, 0, first.stderr)
  for (let round = 0; round < ROUNDS; round++) {
    const kill = round % 3 === 2
    const candidates = await Promise.all(
      Array.from({ length: CLIENTS }, async (_, index) => {
        const branch = `r${round}-${index}`
        await git(checkout, ['branch', branch, index % 4 === 3 ? base : tip])
        const worktree = join(folder, branch)
        await git(folder, ['clone', '--quiet', '--branch', branch, checkout, worktree])
        return { worktree, sha: await commit(worktree), good: index % 2 === 0 }
      }),
    )
    const reports = candidates.map(async ({ sha, good }) => {
      await setTimeout(Math.random() * 300)
      await report(sha, 'ci/test', 'success')
      // Before the report: once it is committed, the push may be accepted.
      if (good) passed.add(sha)
      await report(sha, 'lint', good ? 'success' : 'failure')
      await report(sha, 'ci/other', good ? 'success' : 'pending')
    })
    const url = `${server.url}/owner/gate.git`
    const pushes = candidates.map(async ({ worktree, sha }, index) => {
      for (let attempt = 0; attempt < 3; attempt++) {
        const refs = ['+HEAD:refs/heads/main', `HEAD:refs/heads/topic/${round}-${index}-${attempt}`]
        const { code, stderr } = await tryGit(worktree, ['push', url, ...refs], options)
        if (/\[remote rejected\]/.test(stderr)) refused++
        else if (code === 0) accepted++
        else cut++
        assert(code !== 0 || passed.has(sha), `${sha} was accepted without its checks: ${stderr}`)
      }
    })
    if (kill) {
      await setTimeout(100 + Math.random() * 400)
      server.child.kill('SIGKILL')
      await once(server.child, 'close')
    }
    await Promise.all([...reports, ...pushes])
    if (kill) server = await start()
    tip = await git(repository.path, ['rev-parse', 'refs/heads/main'])
    await git(checkout, ['fetch', '--quiet', repository.path, 'main'])
    t.comment(
      `round ${round}: ${accepted} accepted, ${refused} refused, ${cut} cut off, main at ${tip.slice(0, 10)}`,
    )
  }
  const tips = (await git(repository.path, ['reflog', 'show', '--format=%H', 'main'])).split('\n').reverse()
  for (const [index, sha] of tips.entries()) {
    assert(passed.has(sha), `${sha} got to main without its checks`)
    const before = tips[index - 1]
    if (before) execFileSync('git', ['-C', repository.path, 'merge-base', '--is-ancestor', before, sha])
  }
  assert(tips.length > 2 && refused > 0 && accepted > 0)
  for (let wait = 0; workersIn(repository.path).length > 0 && wait < 100; wait++) await setTimeout(100)
  assert.deepEqual(workersIn(repository.path), [], 'no process of git or a hook is left')
  server.child.kill('SIGTERM')
  await once(server.child, 'close')
  t.pass(`main moved ${tips.length - 1} times, always forward to a commit that had passed`)
})

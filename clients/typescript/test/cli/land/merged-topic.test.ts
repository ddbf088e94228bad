import t from 'tap'
import { tryGit } from '../../../../../test/git-http/client.ts'
import { git } from '../../../../../test/helpers/git.ts'
import { call } from '../../helpers/command-line.ts'
import { startQuickLanding } from '../../helpers/landing.ts'

const { server, checkout, environment, write, topic, report, ...place } = await startQuickLanding(t)

/** What `main` was at, as a client has seen it after each landing. */
const seen = [git(checkout, 'rev-parse', 'work')]

/** Lands a commit whose check passes, and returns what `main` is at then. */
async function land(commit: string): Promise<string> {
  const landing = place.land([commit])
  await report(await topic(commit), 'success')
  t.match(await landing, { code: 0 })
  const listed = await tryGit(checkout, ['ls-remote', 'origin', 'refs/heads/main'])
  const [tip = ''] = listed.stdout.split('\t')
  seen.push(tip)
  return tip
}

/** Merges `main` into a topic, as the gate advises: the topic is the first parent. */
function mergeInto(topicTip: string, main: string): string {
  const tree = git(checkout, 'merge-tree', '--write-tree', topicTip, main)
  return git(checkout, 'commit-tree', tree, '-p', topicTip, '-p', main, '-m', 'Merge main into topic')
}

const lastPassed = (...args: string[]) =>
  call(['last-passed', '--repo', 'acme/rocket', '--branch', 'main', ...args], environment)

t.test('a topic into which main was merged is no commit to which a deployment goes back', async (t) => {
  const [base = ''] = seen
  const fixes = await land(write(base, { 'fixes.txt': 'fixed\n' }))
  const alone = write(base, { 'topic.txt': 'topic\n' })
  const merge = mergeInto(alone, fixes)
  t.equal(await land(merge), merge, 'it descends from main, so it is landed as it is')
  t.match(await report(alone, 'success'), { status: 201 })
  t.equal(git(checkout, 'rev-parse', `${merge}^1`), alone)
  t.match(await lastPassed(), { code: 0, stdout: `${merge}\n` })

  await report(merge, 'failure')
  t.match(await lastPassed(), { code: 0, stdout: `${fixes}\n` })
  t.match(await lastPassed('--after', merge), { code: 0, stdout: `${fixes}\n` })
  const after = await lastPassed('--after', alone)
  t.equal(after.stdout, '')
  t.match(after.stderr, /"main" is not known to have been at/)
  const rolledBack = git(checkout, 'ls-tree', '--name-only', fixes, 'fixes.txt')
  t.equal(rolledBack, 'fixes.txt', 'what is deployed keeps the fix')
  const page = await (await fetch(`${server.url}/acme/rocket`)).text()
  t.match(page, new RegExp(`id="last-passed">[^]*?/commits/${fixes}"`))
})

t.test('each way to land leads back to what main was at', async (t) => {
  const topics: string[] = []
  const [base = '', fixes = ''] = seen
  const before = seen.length
  for (const [round, way] of ['ahead', 'merged', 'beside', 'merged'].entries()) {
    const tip = seen.at(-1) ?? ''
    const start = way === 'ahead' ? tip : (seen.at(-3) ?? base)
    const first = write(start, { [`${round}-1.txt`]: 'x\n' })
    const second = write(first, { [`${round}-2.txt`]: 'x\n' })
    await land(way === 'merged' ? mergeInto(second, tip) : second)
    for (const commit of [first, second]) t.match(await report(commit, 'success'), { status: 201 })
    if (way !== 'ahead') topics.push(first, second)
  }
  for (const tip of seen.slice(before).reverse()) {
    // The first of two commits that a landing added to the branch is one of it too.
    const [parent = ''] = git(checkout, 'rev-parse', `${tip}^1`).split('\n')
    const added = topics.includes(parent) || seen.includes(parent) ? [] : [parent]
    for (const sha of [tip, ...added]) {
      t.equal((await lastPassed()).stdout.trim(), sha)
      await report(sha, 'failure')
    }
  }
  t.equal((await lastPassed()).stdout.trim(), fixes)
})

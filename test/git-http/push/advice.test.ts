import t from 'tap'
import type { Obstacle } from '../../../src/domain/ref-updates.ts'
import { adviceOf, bypassLines } from '../../../src/git-http/push/report.ts'

const URL = 'https://status.example.org/owner/demo'
const SHA = '1'.repeat(40)

/** Returns the advice about a ref without the page. */
function adviceFor(ref: string, obstacle: Obstacle, patterns: string[] = []) {
  const rules = patterns.map((refPattern) => ({ refPattern, required: ['ci'], bypass: [] }))
  return adviceOf([{ ref, obstacle, sha: SHA }], rules, URL)
}

t.test('a branch is proposed only if no rule matches it', async (t) => {
  const proposed = (ref: string, ...patterns: string[]) =>
    /, such as (\S+),/.exec(adviceFor(`refs/heads/${ref}`, 'checks', patterns)[0] ?? '')?.[1]
  t.equal(proposed('main', 'main', 'refs/tags/*'), 'main-checks')
  t.equal(proposed('release/1', 'release/*'), 'checks-release/1')
  t.equal(proposed('main', '*'), undefined)
  t.match(adviceFor('refs/heads/main', 'checks', ['*']), [/to a branch without rules, and here when/])
})

t.test('each obstacle has a next step, and a page where there is one', async (t) => {
  const commit = `  ${URL}/commits/${SHA}`
  const settings = `  ${URL}/settings/checks`
  const mend = 'main: mend it in a new commit, or have the failed check run again'
  t.same(adviceFor('refs/heads/main', 'failed checks'), [mend, commit], 'it is on another branch')
  t.same(adviceFor('refs/heads/main', 'branch forced').slice(1), [commit])
  t.same(adviceFor('refs/heads/main', 'branch deleted').slice(1), [settings])
  t.same(adviceFor('refs/tags/v1', 'tag moved'), ['v1: create a tag with another name', commit])
  t.same(adviceFor('refs/tags/v1', 'tag deleted').slice(1), [settings])
  t.same(adviceFor('refs/tags/v1', 'tag of no commit'), ['v1: create a tag of a commit'])
})

t.test('advice is short, whatever was pushed', async (t) => {
  const ruledOut = Array.from({ length: 10_000 }, (_, index) => ({
    ref: `refs/tags/\u202e${'x'.repeat(4_000)}${index}`,
    obstacle: 'checks' as const,
    sha: SHA,
  }))
  const lines = adviceOf(ruledOut, [], URL)
  t.equal(lines.length, 7)
  t.equal(lines.at(-1), 'And 9997 more.')
  t.ok(lines.every((line) => line.length < 250))
  t.notMatch(lines.join(), /\u202e/)
  t.same(adviceOf([], [], URL), [])
  t.same(bypassLines([]), [])
  const bypassed = ruledOut.map(({ ref }) => ({ ref, reason: 'ci has not reported' }))
  t.equal(bypassLines(bypassed).length, 4)
  t.ok(bypassLines(bypassed).every((line) => line.length < 250))
})

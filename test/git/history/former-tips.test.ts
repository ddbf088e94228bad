import { join } from 'node:path'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { createGitQueue } from '../../../src/git/history/cached-reads.ts'
import { CommitGraph } from '../../../src/git/history/commit-graph.ts'
import { FirstParents } from '../../../src/git/history/first-parents.ts'
import { FormerTips } from '../../../src/git/history/former-tips.ts'
import { openUnchecked } from '../../../src/git/opened-repository.ts'
import { copyBareRepository, importGraph } from '../../helpers/git.ts'
import { temporaryFolder } from '../sample-repository.ts'

const CLIENT = { address: '192.0.2.1' }
const TIMEOUT = 60_000

async function createRepository(t: Test) {
  const path = join(temporaryFolder(t), 'r.git')
  await copyBareRepository(path, 'sha1')
  return { path, ownerTrust: 'trusted' as const }
}

/** Bytes of an id with what follows it, and of the ids of a commit and its parents. */
const ID = 41
const lineOf = (parents: readonly unknown[]) => ID * (1 + parents.length)
const LONGEST_LINE = 4 * ID

/** Histories whose commits have up to three parents among the five commits before them. */
const histories = fc.array(fc.uniqueArray(fc.integer({ min: 1, max: 5 }), { maxLength: 3 }), {
  minLength: 2,
  maxLength: 30,
})

t.test('a part that is cut off answers as the whole would', async (t) => {
  const { path } = await createRepository(t)
  let [asked, cut] = [0, 0]
  const compare = async (distances: number[][], commits: number, bytes: number) => {
    const parents = distances.map((each, index) =>
      index === 0 ? [] : [...new Set((each.length > 0 ? each : [1]).map((by) => Math.max(0, index - by)))],
    )
    const ids = importGraph(path, parents)
    const content = parents.map((_, index) => {
      const found = new Set([index])
      for (const number of found) for (const parent of parents[number] ?? []) found.add(parent)
      return found
    })
    const [first = '', last = ''] = [ids.at(-1), ids[0]]
    const limits = { commits, bytes, timeout: TIMEOUT }
    const graph = await CommitGraph.read(
      openUnchecked(path),
      first,
      last,
      limits,
      AbortSignal.timeout(TIMEOUT),
    )
    const known = ids.filter((id) => graph.has(id)).length
    const all = content.at(-1)?.size ?? 0
    const most = Math.min(all, commits)
    const least = Math.min(most, Math.floor(bytes / LONGEST_LINE))
    // All but the last commit.
    const listed = [...(content.at(-1) ?? [])].reduce((sum, index) => sum + lineOf(parents[index] ?? []), -ID)
    const isTooLong = listed >= bytes
    if (graph.isCut !== (all > commits || isTooLong) || known < (isTooLong ? least : most) || known > most)
      throw new Error(`${known} of ${all} commits, at most ${commits} and ${bytes} of ${listed} bytes`)
    if (graph.isCut) cut++
    for (const [from, id] of ids.entries())
      for (const [to, other] of ids.entries()) {
        if (!graph.has(id) || !graph.has(other)) continue
        const expected: string[] = []
        for (let at: number | undefined = from; at !== undefined && at !== to; at = parents[at]?.[0]) {
          if (!content[at]?.has(to)) break
          expected.push(ids[at] ?? '')
        }
        const found = graph.firstParentsTo(id, other, ids.length) ?? []
        if (found.join() !== expected.join()) throw new Error(`${from} to ${to}: ${found}, not ${expected}`)
        asked++
      }
  }
  const counts = fc.integer({ min: 1, max: 40 })
  const lengths = fc.integer({ min: 1, max: 30 * LONGEST_LINE })
  await fc.assert(fc.asyncProperty(histories, counts, lengths, compare), { numRuns: 50 })
  t.ok(asked > 100 && cut > 0, `${asked} questions, ${cut} of 50 were cut off`)
})

t.test('what lies beyond the commits that one git process lists is found by the next one', async (t) => {
  const repository = await createRepository(t)
  //  The branch is what was merged: 1 into topic 2, at 3, and 3 into topic 4, at 5. Then 6 to 15 were
  //  merged at 16.
  const merged = Array.from({ length: 10 }, (_, index) => [index === 0 ? 0 : index + 5])
  const ids = importGraph(repository.path, [[], [0], [0], [2, 1], [0], [4, 3], ...merged, [5, 15]])
  const at = (...indices: number[]) => indices.map((index) => ids[index] ?? '')
  const list = async (tips: number[], limits: { commits?: number; bytes?: number } = {}) => {
    const queue = createGitQueue()
    const tipsOf = new FormerTips(queue, new FirstParents(queue), limits)
    return tipsOf.list(repository, at(...tips), { after: undefined, count: 10 }, CLIENT)
  }
  const expected = { ids: at(16, 5, 3, 1, 0), more: false }
  t.same(await list([16, 5, 3, 1]), expected)
  t.same(await list([16, 5, 3, 1], { commits: 4 }), expected)
  t.same(await list([16, 5, 3, 1], { bytes: 4 * LONGEST_LINE }), expected)
  const alone = new FormerTips(createGitQueue(), new FirstParents(createGitQueue()), { commits: 1 })
  const cut = await alone.list(repository, at(16, 5, 3, 1), { after: undefined, count: 10 }, CLIENT)
  t.same(cut?.ids, at(16, 5, 4, 0), 'first parents, where not even a parent is listed')
  const late = new FormerTips(createGitQueue(), new FirstParents(createGitQueue()), { timeout: 1 })
  const asked = late.list(repository, at(16, 5, 3, 1), { after: undefined, count: 10 }, CLIENT)
  await t.rejects(
    asked,
    /did not answer in time/,
    'no first parents, which may be wrong, because git is slow',
  )
})

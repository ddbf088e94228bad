import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import type { Test } from 'tap'
import { createBranches } from '../../src/branches/branches.ts'
import type { Pusher } from '../../src/domain/actors.ts'
import { openTestStore, type TestDatabase } from '../helpers/databases.ts'
import { importGraph } from '../helpers/git.ts'
import { addReport, addRepository } from '../helpers/records.ts'

const CLIENT = { address: '192.0.2.1' }
const NONE = '0'.repeat(40)
/** The tip of a branch that was deleted. */
const GONE = -1
const ROOTS = [[], [0], [1]]

const kinds = [
  'push',
  'push',
  'pull',
  'pull',
  'land',
  'merge',
  'rewind',
  'amend',
  'create',
  'elsewhere',
] as const
const histories = fc.record({
  steps: fc.array(
    fc.record({
      kind: fc.constantFrom(...kinds),
      /** How many tips ago the work began that is pushed or merged, or where a forced push goes back to. */
      back: fc.integer({ min: 1, max: 4 }),
      count: fc.integer({ min: 1, max: 3 }),
      /** Whether the server has not recorded the end of the push when the question is asked. */
      isOpen: fc.boolean(),
    }),
    { minLength: 3, maxLength: 16 },
  ),
  /** Which commits have passed, of any branch. */
  passed: fc.array(fc.constantFrom(true, false, false, false), { minLength: 80, maxLength: 80 }),
  after: fc.nat(),
})

type History = typeof histories extends fc.Arbitrary<infer Value> ? Value : never

/** What the branch really was at after a push, which this server may not know. */
interface Moment {
  old: number | null
  tip: number
  /** What was pushed elsewhere instead. */
  elsewhere?: number
  /**
   * All that the branch was at since it was created, the oldest first: where pushes left it, and the
   * commits that these added one after the other on top of it.
   */
  line: readonly number[]
  /** Where in `line` the latest forced push left it; 0 if there was none. */
  forced: number
  isOpen: boolean
}

/** Plays a history: which commits there are, by their parents, and where the branch was. */
function play({ steps }: History): { parents: number[][]; moments: Moment[] } {
  const parents = ROOTS.map((ids) => [...ids])
  const commit = (...of: number[]) => parents.push(of) - 1
  const chain = (from: number, count: number) => {
    const ids: number[] = []
    for (let index = 0; index < count; index++) ids.push(commit(ids.at(-1) ?? from))
    return ids
  }
  let [tips, line, forced]: [number[], number[], number] = [[2], [0, 1, 2], 0]
  const moments: Moment[] = [{ old: null, tip: 2, line, forced, isOpen: false }]
  for (const { kind, back, count, isOpen } of steps) {
    const old = tips.at(-1) ?? 0
    const earlier = tips.at(-1 - back) ?? tips[0] ?? 0
    const move = (...added: number[]) => {
      const tip = added.at(-1) ?? old
      tips = [...tips, tip]
      line = [...line, ...added]
      moments.push({ old, tip, line, forced, isOpen })
    }
    // Who has all of the branch has nothing to merge.
    const isBehind = !contentOf(parents, earlier).has(old)
    if (kind === 'push' || ((kind === 'pull' || kind === 'land') && !isBehind)) move(...chain(old, count))
    // `git pull`: what is merged is the branch, into what was committed here.
    else if (kind === 'pull') move(commit(chain(earlier, count).at(-1) ?? 0, old))
    // The branch is merged into a topic, which goes on, and is then pushed.
    else if (kind === 'land') {
      const merge = commit(chain(earlier, count).at(-1) ?? 0, old)
      move(merge, ...chain(merge, count - 1))
    } else if (kind === 'merge') move(commit(old, chain(earlier, count).at(-1) ?? 0))
    else if (kind === 'rewind' && earlier !== old) {
      forced = line.length
      move(earlier)
    } else if (kind === 'amend') {
      forced = line.length
      move(commit(earlier))
    } else if (kind === 'create') {
      ;[tips, line, forced] = [[earlier], [earlier], 0]
      moments.push({ old, tip: GONE, line: [], forced, isOpen: false })
      moments.push({ old: null, tip: earlier, line, forced, isOpen })
    } else if (kind === 'elsewhere') {
      const elsewhere = chain(earlier, count).at(-1) ?? 0
      moments.push({ old, tip: old, line, forced, isOpen, elsewhere })
    }
  }
  return { parents, moments }
}

/** Returns all commits that one contains. */
function contentOf(parents: readonly (readonly number[])[], commit: number): Set<number> {
  const content = new Set([commit])
  for (const number of content) for (const parent of parents[number] ?? []) content.add(parent)
  return content
}

/** Histories whose commits are made at once: to start git takes longer than the rest. */
const BATCH = 10

/**
 * Compares the last commit that passed with what the branch was really at, in random histories with
 * pulls, landings, forced pushes, branches that are created again, and pushes of several commits.
 * Topics pass too, and are never an answer.
 *
 * @param runs a multiple of 10
 */
export async function compareMoves(t: Test, database: TestDatabase, runs: number): Promise<void> {
  const { store } = await openTestStore(t, database)
  await addRepository(store, 'acme/rocket', { commits: 0 })
  const { repository } = await store.access.find(null, null, 'acme', 'rocket')
  if (!repository) throw new Error('the repository is not readable')
  const branches = createBranches(store)
  const pusher: Pusher = {
    by: {
      kind: 'user',
      user: { id: -1, name: 'nobody' },
      token: { id: 'x', name: 'ci' },
      address: CLIENT.address,
    },
    repositoryId: repository.id,
    repositoryName: 'acme/rocket',
  }
  const counts = { questions: 0, exact: 0, older: 0, firstParentsDiffer: 0 }
  let played = 0

  const compare = async (
    history: History,
    parents: readonly (readonly number[])[],
    moments: readonly Moment[],
    ids: readonly string[],
  ) => {
    const branch = `b${played++}`
    const ref = `refs/heads/${branch}`
    const idOf = (number: number | null) => (number === null || number === GONE ? NONE : (ids[number] ?? ''))
    const hasPassed = (number: number) => history.passed[number] === true
    await Promise.all(
      ids.map((sha, number) =>
        hasPassed(number) ? addReport({ store, repositoryId: repository.id, sha }, 'ci') : null,
      ),
    )
    const ask = async (after?: number) => {
      const query = { branch, require: ['ci'], ...(after !== undefined && { after: idOf(after) }) }
      const { commit, lookedAt } = await branches.lastPassed(repository, query, CLIENT)
      counts.questions++
      return { found: commit === null ? null : ids.indexOf(commit.sha), lookedAt }
    }

    for (const moment of moments) {
      const { old, tip, line, forced, isOpen, elsewhere } = moment
      const update =
        elsewhere === undefined
          ? { ref, old: idOf(old), new: idOf(tip) }
          : { ref: `${ref}-topic-${elsewhere}`, old: NONE, new: idOf(elsewhere) }
      const id = await store.pushes.open(pusher, [update])
      if (elsewhere === undefined && tip !== GONE) writeFileSync(join(repository.path, ref), `${idOf(tip)}\n`)
      if (!isOpen) await store.pushes.settle(id, pusher, { updates: [update] })

      if (tip !== GONE) {
        const certain = line.slice(forced).reverse()
        await compareOne(moment, certain, await ask())
        const after = certain[history.after % certain.length]
        if (after !== undefined)
          await compareOne(moment, certain.slice(certain.indexOf(after) + 1), await ask(after))
      }
      if (isOpen) await store.pushes.settle(id, pusher, { updates: [update] })
    }

    /** @param certain what the branch was at since a forced push, the newest first */
    async function compareOne(
      { line, forced, tip }: Moment,
      certain: readonly number[],
      { found, lookedAt }: Awaited<ReturnType<typeof ask>>,
    ) {
      const place = `${JSON.stringify(parents)}, line ${line}, forced ${forced}, passed ${ids.flatMap((_, number) => (hasPassed(number) ? [number] : []))}`
      const expected = certain.find(hasPassed)
      const chain = [tip]
      for (let at = parents[tip]?.[0]; at !== undefined; at = parents[at]?.[0]) chain.push(at)
      if (chain.find(hasPassed) !== expected) counts.firstParentsDiffer++
      if (expected !== undefined) {
        counts.exact++
        if (found !== expected || lookedAt !== certain.indexOf(expected) + 1)
          throw new Error(`found ${found}, expected ${expected}, looked at ${lookedAt}; ${place}`)
        return
      }
      // From here on, there is a choice: what was before a forced push, or before the first one.
      if (found === null) return
      counts.older++
      const created: number[] = []
      for (let at = line[0]; at !== undefined; at = parents[at]?.[0]) created.push(at)
      const isPossible = [...line, ...created].includes(found) && contentOf(parents, tip).has(found)
      if (!hasPassed(found) || !isPossible)
        throw new Error(`found ${found}, which the branch was never at; ${place}`)
    }
  }

  await fc.assert(
    fc.asyncProperty(fc.array(histories, { minLength: BATCH, maxLength: BATCH }), async (batch) => {
      const plays = batch.map(play)
      let count = 0
      const all = plays.flatMap(({ parents }) => {
        const start = count
        count += parents.length
        return parents.map((of) => of.map((parent) => start + parent))
      })
      const ids = importGraph(repository.path, all)
      for (const [index, history] of batch.entries()) {
        const { parents = [], moments = [] } = plays[index] ?? {}
        await compare(history, parents, moments, ids.splice(0, parents.length))
      }
    }),
    { numRuns: runs / BATCH, endOnFailure: true },
  )
  t.comment(`${database.name}: ${JSON.stringify(counts)}`)
  t.ok(counts.exact > 2 * runs && counts.older > 0 && counts.firstParentsDiffer > runs / 2)
}

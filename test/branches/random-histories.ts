import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import type { Test } from 'tap'
import { schemas } from '../../generated/schemas.ts'
import { createDecisions } from '../../src/branches/decisions.ts'
import { findLastPassed } from '../../src/branches/last-passed.ts'
import type { Pusher } from '../../src/domain/actors.ts'
import { requiredBy, rulesOfRef } from '../../src/domain/ref-rules.ts'
import { explainVerdict } from '../../src/domain/verdict.ts'
import { BranchLists } from '../../src/git/history/branch-lists.ts'
import { createGitQueue } from '../../src/git/history/cached-reads.ts'
import { FirstParents } from '../../src/git/history/first-parents.ts'
import { FormerTips } from '../../src/git/history/former-tips.ts'
import { openUnchecked } from '../../src/git/opened-repository.ts'
import { decide } from '../../src/git-http/push/gate.ts'
import { Turns } from '../../src/schedule/turns.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { openTestStore, type TestDatabase } from '../helpers/databases.ts'
import { importGraph } from '../helpers/git.ts'
import { addReport, addRepository } from '../helpers/records.ts'

const CLIENT = { address: '192.0.2.1' }
const CONTEXTS = ['build', 'ci/a', 'ci/b', 'lint']
const PATTERNS = ['build', 'lint', 'ci/*', 'ci/a']
const NOTHING = '0'.repeat(40)

const states = fc.option(fc.constantFrom('success', 'success', ...schemas.State.enum), { freq: 4 })
/** The state of each context on a commit; null: not reported. Every third commit has passed them all. */
const reports = fc.oneof(
  { weight: 1, arbitrary: fc.constant(CONTEXTS.map(() => 'success' as const)) },
  { weight: 2, arbitrary: fc.tuple(...CONTEXTS.map(() => states)) },
)
/** How many commits before this one its parents are; the second one only of a merge. */
const distance = fc.integer({ min: 1, max: 3 })
const histories = fc.record({
  commits: fc.array(fc.record({ first: distance, second: fc.option(distance, { freq: 2 }), reports }), {
    minLength: 1,
    maxLength: 12,
  }),
  required: fc.uniqueArray(fc.constantFrom(...PATTERNS), { minLength: 1, maxLength: 2 }),
})

type History = typeof histories extends fc.Arbitrary<infer Value> ? Value : never

/** Returns the indices of the parents of each commit. */
function parentsOf({ commits }: History): number[][] {
  return commits.map(({ first, second }, index) =>
    index === 0
      ? []
      : [...new Set([first, second ?? first].map((distance) => Math.max(0, index - distance)))],
  )
}

/** Histories whose commits are made at once: to start git takes longer than the rest. */
const BATCH = 20

/**
 * Compares the last commit that passed with what the gate would let the branch move to, and with the
 * verdict on each commit, in random histories with merges. Branches move and rules change between.
 *
 * @param runs a multiple of 20
 */
export async function compareHistories(t: Test, database: TestDatabase, runs: number): Promise<void> {
  const { store } = await openTestStore(t, database)
  const queue = createGitQueue()
  const decideAll = createDecisions(store, new Turns(store.remote))
  const parts = {
    lists: new BranchLists(queue),
    listTips: store.listTips,
    formerTips: new FormerTips(queue, new FirstParents(queue)),
    decide: decideAll,
  }
  const created = await addRepository(store, 'acme/rocket', { commits: 0 })
  const access = await store.access.find(null, null, 'acme', 'rocket')
  const { repository } = access
  if (!repository) throw new Error('the repository is not readable')
  const opened = openUnchecked(repository.path)
  const pusher: Pusher = {
    by: {
      kind: 'user',
      user: { id: -1, name: 'nobody' },
      token: { id: 'f00d', name: 'CI' },
      address: CLIENT.address,
    },
    repositoryId: repository.id,
    repositoryName: 'acme/rocket',
  }
  let found = 0

  const compare = async (
    { commits, required }: History,
    parents: readonly (readonly number[])[],
    ids: readonly string[],
  ) => {
    const reported = commits.flatMap(({ reports }, index) =>
      [...reports.entries()].flatMap(([number, state]) => {
        const commit = { store, repositoryId: repository.id, sha: ids[index] ?? '' }
        return state === null ? [] : [addReport(commit, CONTEXTS[number] ?? '', state)]
      }),
    )
    // At once, so that they are few commits of the database.
    await Promise.all(reported)
    await asAdministrator(store).rules.set(created, {
      refPattern: 'main',
      required: [...new Set(['build', ...required])],
      bypass: [],
    })
    writeFileSync(join(repository.path, 'refs/heads/main'), `${ids.at(-1)}\n`)

    const rules = await store.rules.load(repository.id)
    const patterns = requiredBy(rulesOfRef(rules, 'refs/heads/main'))
    const chain: number[] = []
    for (let at: number | undefined = ids.length - 1; at !== undefined; at = parents[at]?.[0]) chain.push(at)
    let expected: string | null = null
    for (const index of chain) {
      const sha = ids[index] ?? ''
      const { verdict } = explainVerdict(await store.statuses.list(repository.id, sha), patterns)
      const pushed = {
        updates: [{ ref: 'refs/heads/main', old: NOTHING, new: sha }],
        atomic: false,
        signal: AbortSignal.timeout(60_000),
      }
      const push = {
        store,
        pusher,
        opened,
        rules,
        impossible: new Map(),
        repositoryUrl: 'http://localhost/acme/rocket',
        authorizeAgain: async () => {},
        turns: new Turns(store.remote),
        onError: (error: unknown) => {
          throw error
        },
      }
      const { refusals } = await decide(push, pushed)
      if ((verdict === 'success') !== (refusals.size === 0)) throw new Error(`the gate differs: ${sha}`)
      if (verdict === 'success') expected ??= sha
    }
    const { commit, lookedAt } = await findLastPassed(parts, repository, { branch: 'main' }, CLIENT)
    const position = chain.findIndex((index) => ids[index] === expected)
    if (commit?.sha !== (expected ?? undefined)) throw new Error(`found ${commit?.sha}, expected ${expected}`)
    if (lookedAt !== (expected === null ? chain.length : position + 1))
      throw new Error(`looked at ${lookedAt}`)
    if (commit) found++
  }

  await fc.assert(
    fc.asyncProperty(fc.array(histories, { minLength: BATCH, maxLength: BATCH }), async (batch) => {
      const graphs = batch.map(parentsOf)
      let count = 0
      const all = graphs.flatMap((graph) => {
        const start = count
        count += graph.length
        return graph.map((parents) => parents.map((parent) => start + parent))
      })
      const ids = importGraph(repository.path, all)
      for (const [index, history] of batch.entries()) {
        const graph = graphs[index] ?? []
        await compare(history, graph, ids.splice(0, graph.length))
      }
    }),
    { numRuns: runs / BATCH },
  )
  t.ok(found > runs / 2 && found < runs, `${found} of ${runs} histories have a commit that passed`)
}

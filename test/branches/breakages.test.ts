import t from 'tap'
import { Breakages } from '../../src/branches/breakages.ts'
import { failingSince } from '../../src/domain/failing-since.ts'
import type { StatusState } from '../../src/domain/states.ts'
import { createGitQueue } from '../../src/git/history/cached-reads.ts'
import { CommitLog } from '../../src/git/history/log.ts'
import { openTestStore, sqlite } from '../helpers/databases.ts'
import { createRandom } from '../helpers/random.ts'
import { addPush, addReport, addRepository } from '../helpers/records.ts'
import { type TeamHistory, workTogether, writeHistories } from '../helpers/team-histories.ts'

t.test('a check is failing since the oldest failure after it last passed', async (t) => {
  const cellsOf = (states: string) =>
    Array.from(states, (letter) => {
      const state = ({ f: 'failure', e: 'error', s: 'success', p: 'pending' } as const)[letter]
      return state && { state, target_url: null, updated_at: 0 }
    })
  const expected: Record<string, [first: number, length: number, lastPassed: number | null]> = {
    fs: [0, 1, 1],
    ffesf: [1, 2, 3],
    'p-f-fs': [4, 2, 5],
    ff: [1, 2, null],
    'f--': [0, 1, null],
    es: [0, 1, 1],
    'p-eefes': [4, 2, 6],
    eefe: [2, 2, null],
    sf: [0, 0, 0],
    '-p': [0, 0, null],
  }
  for (const [states, [first, length, lastPassed]] of Object.entries(expected))
    t.same(failingSince(cellsOf(states)), { first, length, lastPassed }, states)
})

t.test('what is remembered of older commits is that of a branch and its checks', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const queue = createGitQueue()
  const breakages = new Breakages(queue, new CommitLog(queue), store)
  // A fork has the same commits, and results of its own.
  const commits = Array.from({ length: 40 }, (_, index) => (index + 1).toString(16).padStart(40, '0'))
  const repositories = [
    { name: 'acme/rocket', failed: { ci: [0, 34], lint: [0] }, passed: { ci: 36, lint: 31 } },
    { name: 'ann/rocket', failed: { ci: [0, 32], lint: [0, 33] }, passed: { ci: 38, lint: 39 } },
  ]
  for (const { name, failed, passed } of repositories) {
    const { id: repositoryId } = await addRepository(store, name, { commits: 0 })
    const report = (context: string, index: number, state: 'failure' | 'success') =>
      addReport({ store, repositoryId, sha: commits[index] ?? '' }, context, state)
    for (const context of ['ci', 'lint'] as const) {
      for (const index of failed[context]) await report(context, index, 'failure')
      await report(context, passed[context], 'success')
    }
    for (const context of ['ci', 'lint', 'ci'] as const) {
      const [found] = await breakages.find(repositoryId, commits, [context])
      t.match(
        found?.breakage,
        { since: commits[failed[context].at(-1) ?? 0], lastPassed: commits[passed[context]] },
        `${context} of ${name}`,
      )
    }
    // Another branch at the same commit was not at some of the older ones.
    const [found] = await breakages.find(repositoryId, commits.toSpliced(31, 1), ['ci'])
    t.match(
      found?.breakage,
      { since: commits[failed.ci.at(-1) ?? 0], lastPassed: commits[passed.ci] },
      `ci of another branch of ${name}`,
    )
  }
})

t.test('a check that has not completed on the first commits is looked for on older ones', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const queue = createGitQueue()
  const breakages = new Breakages(queue, new CommitLog(queue), store)
  const { id: repositoryId } = await addRepository(store, 'acme/rocket', { commits: 0 })
  const commits = Array.from({ length: 45 }, (_, index) => (index + 1).toString(16).padStart(40, '0'))
  const [sha = ''] = commits
  const report = (context: string, index: number, state: StatusState) =>
    addReport({ store, repositoryId, sha: commits[index] ?? '' }, context, state)
  for (const context of ['ci', 'cancelled', 'nightly', 'rare']) await report(context, 0, 'pending')
  // The `error` of one is its newest result, that of the other is not.
  await report('ci', 35, 'failure')
  await report('ci', 36, 'error')
  await report('ci', 38, 'success')
  await report('cancelled', 40, 'error')
  await report('cancelled', 41, 'success')
  await report('nightly', 40, 'success')
  const found = await breakages.find(repositoryId, commits, ['ci', 'cancelled', 'nightly', 'rare'])
  t.match(found, [
    {
      breakage: {
        since: commits[35],
        state: 'failure',
        newest: { state: 'failure' },
        length: 1,
        lastPassed: commits[38],
        unchecked: commits.slice(36, 38),
        position: 35,
      },
      hasPassed: true,
    },
    { breakage: { since: commits[40], state: 'error', length: 1, lastPassed: commits[41] }, hasPassed: true },
    { breakage: null, hasPassed: true },
    { breakage: null, hasPassed: false },
  ])
  const [summary] = await store.summaries.list([{ repositoryId, sha }])
  if (!summary) throw new Error('one summary for each commit')
  const longest = () => breakages.findLongest(repositoryId, commits, summary)
  t.match(await longest(), { context: 'ci', since: commits[35] }, 'while its checks run')

  await report('cancelled', 0, 'failure')
  const [again] = await breakages.find(repositoryId, commits, ['cancelled'])
  t.match(again?.breakage, { since: sha, length: 1 }, 'the older `error` is not the newest result any more')
})

t.test('whoever broke a branch is named, whatever a team did', async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 31)
  const random = createRandom(seed)
  const { store } = await openTestStore(t, sqlite)
  const repository = await addRepository(store, 'acme/rocket', { commits: 0 })
  const { id: repositoryId, path } = repository
  const histories = Array.from({ length: 60 }, (_, index) => workTogether(random, index % 2 === 1))
  const written = writeHistories(path, histories)
  const queue = createGitQueue()
  const breakages = new Breakages(queue, new CommitLog(queue), store)
  const client = { address: '192.0.2.1' }
  const seen = { one: 0, several: 0, nobody: 0, gaps: 0 }

  for (const [number, history] of histories.entries()) {
    const ids = written[number] ?? []
    for (const [index, { report }] of history.commits.entries())
      if (report) await addReport({ store, repositoryId, sha: ids[index] ?? '' }, 'ci', report)
    if (number % 2 === 1)
      for (const [old, next] of history.moves)
        await addPush(store, repository, `team-${number}`, [
          old === null ? '0'.repeat(40) : (ids[old] ?? ''),
          ids[next] ?? '',
        ])
    const sha = ids[history.landings.at(-1)?.at ?? 0] ?? ''
    // A branch that was renamed has no records of its moves.
    const branch = number % 6 === 0 ? 'renamed' : `team-${number}`
    const commits = await breakages.commitsOf(repository, { branch, sha }, client)
    const [found] = await breakages.find(repositoryId, commits, ['ci'])
    const told = `history ${number} of seed ${seed}`
    if (!t.ok(found?.breakage, told) || !found?.breakage) continue
    const { breakage } = found
    const suspects = (await breakages.suspects(repository, breakage, client)).commits
    const named = new Set(suspects.map(({ author }) => author))
    const { first, since, suspected, breaker, failed, reported } = whatTheyKnow(history)
    const longest = async () => {
      const [summary] = await store.summaries.list([{ repositoryId, sha }])
      if (!summary) throw new Error('one summary for each commit')
      const searched = await breakages.commitsToSearch(repository, { branch, sha }, summary, client)
      return { searched, breakage: await breakages.findLongest(repositoryId, searched, summary) }
    }
    t.same((await longest()).breakage, breakage, `${told}: also by the newest commit with reports`)
    await addReport({ store, repositoryId, sha: ids[reported] ?? '' }, 'ci', 'success')
    const whole = await longest()
    t.equal(whole.breakage, undefined, `${told}: it has passed since`)
    if (ids[reported] !== sha) t.same(whole.searched, [sha], `${told}: its older commits are not listed`)
    t.equal(breakage.since, ids[since], `${told}: since when`)
    t.equal(breakage.length, failed, `${told}: on how many commits`)
    t.equal(breakage.lastPassed, first === null ? null : ids[first], `${told}: the last that passed`)
    if (first === null || breakage.state === 'error') {
      t.equal(suspects.length, 1, `${told}: nobody is named`)
      seen.nobody++
      continue
    }
    t.same([...named].sort(), suspected, `${told}: who may have broken it`)
    t.ok(named.has(breaker ?? ''), `${told}: ${breaker} broke it`)
    if (named.size === 1) seen.one++
    else seen.several++
    if (breakage.unchecked.length > 0) seen.gaps++
  }
  for (const [kind, count] of Object.entries(seen)) t.ok(count > 0, `${kind}: ${count} of seed ${seed}`)
})

/** What people remember of each landing, without looking at the history. */
function whatTheyKnow({ landings }: TeamHistory) {
  const newest = landings.findLastIndex(({ report }) => report !== undefined)
  let [passed, since, failed]: [number | null, number, number] = [null, newest, 0]
  for (const [index, { report }] of landings.entries()) {
    if (report === 'success') [passed, failed] = [index, 0]
    const counts = report === 'failure' || (report === 'error' && index === newest)
    if (!counts) continue
    if (failed === 0) since = index
    failed++
  }
  const between = landings.slice((passed ?? -1) + 1, since + 1)
  return {
    first: passed === null ? null : (landings[passed]?.at ?? null),
    since: landings[since]?.at ?? 0,
    suspected: [...new Set(between.flatMap(({ authors }) => authors))].sort(),
    breaker: landings[since]?.breaker,
    failed,
    reported: landings[newest]?.at ?? 0,
  }
}

import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import t, { type Test } from 'tap'
import { RepositoryUnavailable } from '../../../src/git/errors.ts'
import { createGitQueue } from '../../../src/git/history/cached-reads.ts'
import { FirstParents } from '../../../src/git/history/first-parents.ts'
import { FairQueue, type QueueClient } from '../../../src/schedule/fair-queue.ts'
import { insteadOf } from '../../../src/util/expected-errors.ts'
import { copyBareRepository, git, importCommits, importGraph, replaceGit } from '../../helpers/git.ts'
import { until } from '../../helpers/until.ts'
import { temporaryFolder } from '../sample-repository.ts'

const CLIENT = { address: '192.0.2.1' }

async function createRepository(t: Test, format: 'sha1' | 'sha256' = 'sha1') {
  const path = join(temporaryFolder(t), 'r.git')
  await copyBareRepository(path, format)
  return { path, ownerTrust: 'trusted' as const }
}

/** Makes git count its runs, and returns a function that tells how often it ran since the last call. */
function countRuns(t: Test): () => number {
  const log = join(temporaryFolder(t), 'runs')
  writeFileSync(log, '')
  replaceGit(t, `echo x >>${log}; exec "$git" "$@"`)
  let before = 0
  return () => {
    const runs = readFileSync(log, 'utf8').length / 2
    const since = runs - before
    before = runs
    return since
  }
}

t.test('pages of a history join, and cost one process each at most', async (t) => {
  for (const format of ['sha1', 'sha256'] as const) {
    const repository = await createRepository(t, format)
    const commits = importCommits(repository.path, 250).reverse()
    const [tip = ''] = commits
    const runs = countRuns(t)
    const history = new FirstParents(createGitQueue())
    const read = async () => {
      const ids: string[] = []
      for (let after: string | undefined; ; after = ids.at(-1)) {
        const page = await history.list(repository, tip, { after, count: 100 }, CLIENT)
        ids.push(...(page?.ids ?? []))
        if (!page?.more) return ids
      }
    }
    t.same(await read(), commits)
    t.equal(runs(), 3)
    t.same(await read(), commits, 'from memory')
    t.equal(runs(), 0)
    const exact = await history.list(repository, tip, { after: undefined, count: 250 }, CLIENT)
    t.match(exact, { ids: { length: 250 }, more: false }, 'exactly as many as there are')
    const less = await history.list(repository, tip, { after: undefined, count: 249 }, CLIENT)
    t.match(less, { ids: { length: 249 }, more: true })
    const cold = new FirstParents(createGitQueue())
    t.match(await cold.list(repository, tip, { after: undefined, count: 250 }, CLIENT), { more: false })
    t.match(await cold.list(repository, tip, { after: undefined, count: 249 }, CLIENT), { more: true })
  }
})

t.test('after a push only its commits are read, and none of merged branches', async (t) => {
  const repository = await createRepository(t)
  //  0 ── 1 ── 2 ──── 5    a merge whose first parent is 2
  //        └─ 3 ── 4 ─┘
  const ids = importGraph(repository.path, [[], [0], [1], [1], [3], [2, 4], [5]])
  const at = (...indices: number[]) => indices.map((index) => ids[index] ?? '')
  const history = new FirstParents(createGitQueue())
  const list = (tip: number, after?: number, count = 10) =>
    history.list(
      repository,
      ids[tip] ?? '',
      { after: after === undefined ? undefined : ids[after], count },
      CLIENT,
    )
  t.same(await list(2), { ids: at(2, 1, 0), more: false })
  const runs = countRuns(t)
  t.same(await list(5), { ids: at(5, 2, 1, 0), more: false })
  t.equal(runs(), 1)
  t.same(await list(6, 2), { ids: at(1, 0), more: false })
  t.same(await list(6), { ids: at(6, 5, 2, 1, 0), more: false })
  t.same(await list(6, 0), { ids: [], more: false }, 'nothing comes after the first commit')
  t.equal(runs(), 1)

  t.equal(await list(6, 4), null, 'a commit of a merged branch')
  t.equal(await list(2, 5), null, 'a commit after the tip, as after a forced push')
  const unknown = { after: 'f'.repeat(40), count: 10 }
  t.equal(await history.list(repository, ids[6] ?? '', unknown, CLIENT), null)
  t.equal(await history.list(repository, ids[6] ?? '', { ...unknown, after: 'f'.repeat(64) }, CLIENT), null)
  t.equal(runs(), 0, 'all of it is known by now')
})

t.test('random histories are those of git, whatever is cached', async (t) => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(), fc.option(fc.nat())), { minLength: 1, maxLength: 30 }),
      fc.array(fc.tuple(fc.nat(), fc.option(fc.nat()), fc.integer({ min: 1, max: 8 })), { maxLength: 8 }),
      async (shape, questions) => {
        const repository = await createRepository(t)
        const parents = shape.map(([first, second], index) => {
          if (index === 0) return []
          const chosen = [first % index, ...(second === null ? [] : [second % index])]
          return [...new Set(chosen)]
        })
        const ids = importGraph(repository.path, parents)
        const chain = (index: number): string[] => {
          const [first] = parents[index] ?? []
          return [ids[index] ?? '', ...(first === undefined ? [] : chain(first))]
        }
        const history = new FirstParents(createGitQueue())
        for (const [tip, after, count] of questions) {
          const start = tip % ids.length
          const wanted = { after: after === null ? undefined : ids[after % ids.length], count }
          const all = chain(start)
          const from = wanted.after === undefined ? 0 : all.indexOf(wanted.after) + 1
          const expected =
            wanted.after !== undefined && from === 0
              ? null
              : { ids: all.slice(from, from + count), more: all.length > from + count }
          t.same(await history.list(repository, ids[start] ?? '', wanted, CLIENT), expected)
        }
      },
    ),
    { numRuns: 8 },
  )
})

t.test('memory is bounded, and what is dropped is read again', async (t) => {
  const repository = await createRepository(t)
  const commits = importCommits(repository.path, 2_500).reverse()
  const history = new FirstParents(createGitQueue(), { maxBytes: 25_000 })
  const wanted = { after: commits[2_300], count: 300 }
  for (let times = 0; times < 2; times++)
    t.same(await history.list(repository, commits[0] ?? '', wanted, CLIENT), {
      ids: commits.slice(2_301),
      more: false,
    })
})

t.test('a history that git cannot read is unavailable, and a repaired one is read again', async (t) => {
  const repository = await createRepository(t)
  const [first = '', second = ''] = importCommits(repository.path, 2)
  const history = new FirstParents(createGitQueue())
  const list = () => history.list(repository, second, { after: undefined, count: 5 }, CLIENT)
  const file = join(repository.path, 'objects', first.slice(0, 2), first.slice(2))
  const content = readFileSync(file)
  git(repository.path, 'cat-file', '-e', first)
  rmSync(file)
  await t.rejects(list(), RepositoryUnavailable)
  writeFileSync(file, content)
  t.same(await list(), { ids: [second, first], more: false })
  writeFileSync(join(repository.path, 'shallow'), `${second}\n`)
  t.same(await list(), { ids: [second], more: false }, 'a repository that becomes shallow')
})

t.test('a history that takes long is read in parts, each in its time', async (t) => {
  const repository = await createRepository(t)
  const commits = importCommits(repository.path, 2_500).reverse()
  const [tip = ''] = commits
  // Stops answering after 1,000 commits, as a slow git would.
  replaceGit(t, '"$git" "$@" | head -n 1000; exec sleep 60')
  const slow = new FirstParents(createGitQueue(), { timeout: 500 })
  const list = () => slow.list(repository, tip, { after: commits[2_400], count: 5 }, CLIENT)
  await t.rejects(list(), RepositoryUnavailable)
  await t.rejects(list(), RepositoryUnavailable)
  let page: Awaited<ReturnType<typeof list>> | undefined
  // On a busy machine git may not have begun in time.
  for (let times = 0; !page && times < 50; times++)
    page = await list().catch(insteadOf(RepositoryUnavailable, undefined))
  t.same(page, { ids: commits.slice(2_401, 2_406), more: true }, 'each went on where the last one ended')
})

t.test('who waits for a slot finds what was read before', async (t) => {
  const repository = await createRepository(t)
  const commits = importCommits(repository.path, 2_500).reverse()
  const [tip = ''] = commits
  const runs = countRuns(t)
  const history = new FirstParents(createGitQueue(1))
  // All end with the same commit: whichever is first reads what the others need.
  const deep = [2_200, 2_100, 2_000].map((index) => ({ after: commits[index], count: 2_205 - index }))
  const pages = await Promise.all(deep.map((wanted) => history.list(repository, tip, wanted, CLIENT)))
  for (const [index, { count }] of deep.entries())
    t.match(pages[index], { ids: { length: count }, more: true })
  t.equal(runs(), 1)
})

t.test('who asks for a history that waits for the turn of another client has its own turn', async (t) => {
  const repository = await createRepository(t)
  const commits = importCommits(repository.path, 30).reverse()
  const [tip = ''] = commits
  const queue = new FairQueue({ slots: 3, slotsPerClient: 2, timeout: 60_000 })
  const history = new FirstParents(queue, { timeout: 60_000 })
  const end = Promise.withResolvers<void>()
  const held = [1, 2].map(() => queue.run(CLIENT, () => end.promise))
  const list = (client: QueueClient) => history.list(repository, tip, { after: undefined, count: 30 }, client)
  const waits = list(CLIENT)
  await until(() => queue.waiting === 1)
  const runs = countRuns(t)
  const [page, same] = await Promise.all([list({ address: '192.0.2.2' }), waits])
  t.same([page, same], Array(2).fill({ ids: commits, more: false }))
  t.equal(runs(), 1)
  end.resolve()
  await Promise.all(held)
})

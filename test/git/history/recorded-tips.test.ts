import t from 'tap'
import { createGitQueue } from '../../../src/git/history/cached-reads.ts'
import { FirstParents } from '../../../src/git/history/first-parents.ts'
import { FormerTips } from '../../../src/git/history/former-tips.ts'
import { FairQueue, type QueueClient } from '../../../src/schedule/fair-queue.ts'
import { openTestStore, sqlite } from '../../helpers/databases.ts'
import { importGraph } from '../../helpers/git.ts'
import { addRepository } from '../../helpers/records.ts'
import { until } from '../../helpers/until.ts'

const CLIENT = { address: '192.0.2.1' }

t.test('what a branch was at follows from where pushes left it', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const repository = await addRepository(store, 'acme/rocket', { commits: 0 })
  //  0 ── 1 ── 2 ── 4 ── 8    4: 2 was merged into the topic 3; 8: pushed with 4 below it
  //       ├─ 3 ──────┘
  //       ├─ 5 ── 6            removed by a forced push
  //       └─ 7                 never merged
  const graph = [[], [0], [1], [1], [3, 2], [1], [5], [1], [4]]
  const ids = importGraph(repository.path, graph)
  const queue = createGitQueue()
  const create = () => new FormerTips(queue, new FirstParents(queue))
  const list = async (tips: readonly number[], after?: number, count = 300, formerTips = create()) => {
    const found = await formerTips.list(
      repository,
      tips.map((tip) => ids[tip] ?? ''),
      { after: after === undefined ? undefined : ids[after], count },
      CLIENT,
    )
    return found?.ids.map((id) => ids.indexOf(id))
  }

  t.same(await list([4]), [4, 3, 1, 0], 'nothing is recorded: first parents')
  t.same(await list([4, 2, 1]), [4, 2, 1, 0], 'a merge in which the branch is not the first parent')
  t.same(await list([8, 2, 1]), [8, 4, 2, 1, 0], 'a push of two commits')
  t.same(await list([8, 4, 7, 2, 6, 1]), [8, 4, 2, 1, 0], 'what forced pushes have removed is skipped')
  t.same(await list([4, 7, 6]), [4, 3, 1, 0], 'where no tip is left: first parents')
  t.same(await list([4, 6, 1, 4, 2, 1]), [4, 2, 1, 0], 'a forced push back to the newest tip')
  t.same(await list([8, 4, 6, 1, 4, 2, 1]), [8, 4, 2, 1, 0], 'and to the one before')
  t.same(
    await list([8, 1, 4, 2, 1]),
    [8, 4, 2, 1, 0],
    'a forced push to before a merge, and on from the merge',
  )
  t.same(await list([8, 1, 4, 2, 1], 4), [2, 1, 0], 'after that merge')

  t.same(await list([8, 2, 1], 4), [2, 1, 0], 'after a commit of a stretch')
  t.same(await list([8, 2, 1], 2), [1, 0], 'after a tip')
  t.same(await list([8, 2, 1], 1), [0], 'after the last tip')
  t.same(await list([8, 2, 1], 0), [], 'below the last tip')
  t.equal(await list([8, 2, 1], 3), undefined, 'a commit of a topic')
  t.equal(await list([8, 2, 1], 6), undefined, 'another branch')
  t.same(await list([4, 2, 6, 5, 1], 6), [5, 1, 0], 'after a tip that a forced push has removed')
  for (const count of [1, 2, 3, 4]) {
    t.same(await list([8, 2, 1], undefined, count), [8, 4, 2, 1, 0].slice(0, count))
    t.same(await list([8, 2, 1], 8, count), [4, 2, 1, 0].slice(0, count))
  }

  const formerTips = create()
  for (const count of [1, 300, 2])
    t.same(
      await list([8, 2, 1], undefined, count, formerTips),
      [8, 4, 2, 1, 0].slice(0, count),
      'from a cache',
    )

  const removed = (count: number) => Array.from({ length: count }, (_, index) => 6 + (index % 2))
  t.same(await list([8, 4, ...removed(298), 2, 1]), [8, 4, 2, 1, 0], '300 earlier tips are looked at')
  const many = [8, 4, ...removed(299), 2, 1]
  t.same(await list(many), [8, 4, 3, 1, 0], 'beyond these: first parents')
  t.same(await list(many, 3), [1, 0], 'after one of those first parents')
  t.same(await list(many, 2), [1, 0], 'after a tip beyond these')
})

t.test('who asks for a path that waits for the turn of another client has its own turn', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const repository = await addRepository(store, 'acme/rocket', { commits: 0 })
  //  0 ── 1 ── 2 ── 4    4: 2 was merged into the topic 3
  //       └─ 3 ─────┘
  const ids = importGraph(repository.path, [[], [0], [1], [1], [3, 2]])
  const at = (indices: number[]) => indices.map((index) => ids[index] ?? '')
  const queue = new FairQueue({ slots: 3, slotsPerClient: 2, timeout: 60_000 })
  const firstParents = new FirstParents(queue, { timeout: 60_000 })
  const formerTips = new FormerTips(queue, firstParents, { timeout: 60_000 })
  const other = { address: '192.0.2.2' }
  const end = Promise.withResolvers<void>()
  const held = [1, 2].map(() => queue.run(CLIENT, () => end.promise))
  const list = (client: QueueClient) =>
    formerTips.list(repository, at([4, 2, 1]), { after: undefined, count: 300 }, client)

  // First parents and the graph of commits are read in one turn each.
  const waits = list(CLIENT)
  await until(() => queue.waiting === 1)
  const expected = { ids: at([4, 2, 1, 0]), more: false }
  t.same(await Promise.all([list(other), waits]), Array(2).fill(expected))
  end.resolve()
  await Promise.all(held)
})

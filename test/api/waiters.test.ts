import { setImmediate } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { Waiters, type WaitLimits } from '../../src/api/waiters.ts'
import { StoreUnavailable } from '../../src/store/engine.ts'
import type { CommitKey } from '../../src/store/statuses.ts'
import { openTestStore, sqlite } from '../helpers/databases.ts'

/** Limits at which one request, or one commit, is all that a client may have, and two are all. */
const LIMITS: Partial<WaitLimits> = {
  requests: { total: 9, perClient: 9 },
  contexts: { total: 6, perClient: 3 },
  comparisons: { total: 6, perClient: 3 },
}
const X: CommitKey = { repositoryId: 1, sha: 'x' }
const Y: CommitKey = { repositoryId: 1, sha: 'y' }
const Z: CommitKey = { repositoryId: 1, sha: 'z' }

interface Request {
  client: string
  commit?: CommitKey
  contexts?: number
  comparisons?: number
  seconds?: number
}

/** Opens a database without statuses, and waits for it. */
async function setUp(t: Test) {
  const { store } = await openTestStore(t, sqlite)
  const waiters = new Waiters(store.statuses, LIMITS)
  t.teardown(() => waiters.close())
  return waitOn(waiters)
}

/** Returns a function that waits; `accepted` tells whether the wait began. */
function waitOn(waiters: Waiters) {
  return ({ client, commit = X, contexts = 1, comparisons = 1, seconds = 60 }: Request) => {
    const controller = new AbortController()
    const before = waiters.size
    const wait = {
      until: performance.now() + seconds * 1000,
      contexts,
      comparisons,
      known: 'digest',
      question: '',
      digest: async () => 'digest',
    }
    const result = waiters.wait(commit, wait, client, controller.signal)
    const accepted = waiters.size > before
    return { accepted, result: result.catch((error: Error) => error), abort: () => controller.abort() }
  }
}

t.test('one client cannot use up what another needs', async (t) => {
  const wait = await setUp(t)
  t.equal(wait({ client: 'a', commit: X, contexts: 3 }).accepted, true)
  t.equal(wait({ client: 'a', commit: Y }).accepted, false, 'the contexts of a client')
  t.equal(wait({ client: 'b', commit: Y, contexts: 2 }).accepted, true, 'another client')
  t.equal(wait({ client: 'c', commit: Z, contexts: 2 }).accepted, false, 'the contexts of all commits')
  t.equal(wait({ client: 'c', commit: Z, contexts: 1 }).accepted, true)
  t.equal(wait({ client: 'b', commit: Y, comparisons: 3 }).accepted, false, 'the comparisons of a client')
  t.equal(wait({ client: 'd', commit: X, comparisons: 3 }).accepted, true)
  t.equal(wait({ client: 'e', commit: X }).accepted, false, 'the comparisons of all')
})

t.test('a client pays for a commit while it waits for it, whoever else does', async (t) => {
  const wait = await setUp(t)
  const first = wait({ client: 'a', commit: X, contexts: 3 })
  const again = wait({ client: 'a', commit: X, contexts: 3 })
  const other = wait({ client: 'b', commit: X, contexts: 3 })
  t.strictSame([again.accepted, other.accepted], [true, true])
  first.abort()
  await first.result
  t.equal(wait({ client: 'a', commit: Y }).accepted, false, 'it still waits for the first commit')
  again.abort()
  await again.result
  t.equal(wait({ client: 'a', commit: Y, contexts: 3 }).accepted, true)
  t.equal(wait({ client: 'b', commit: Y }).accepted, false, 'the other still pays')
})

t.test('a commit that grows while a client waits is charged again', async (t) => {
  const wait = await setUp(t)
  const small = wait({ client: 'a', commit: X, contexts: 1 })
  t.equal(wait({ client: 'a', commit: Y, contexts: 2 }).accepted, true)
  t.equal(
    wait({ client: 'a', commit: X, contexts: 2 }).accepted,
    false,
    'the same commit, with a context more',
  )
  t.equal(wait({ client: 'b', commit: X, contexts: 3 }).accepted, true)
  t.equal(wait({ client: 'c', commit: Z, contexts: 2 }).accepted, false, 'all have 5 contexts')
  small.abort()
  await small.result
  t.equal(wait({ client: 'a', commit: Z, contexts: 1 }).accepted, true)
})

t.test('after a look at reports it rests for four times as long', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const looks: { start: number; end: number }[] = []
  const slow = {
    foreignChanges: store.statuses.foreignChanges,
    async snapshots(commits: readonly CommitKey[]) {
      const start = performance.now()
      while (performance.now() - start < 20);
      const snapshots = await store.statuses.snapshots(commits)
      looks.push({ start, end: performance.now() })
      return snapshots
    },
  }
  const waiters = new Waiters(slow, LIMITS)
  t.teardown(() => waiters.close())
  t.equal(waitOn(waiters)({ client: 'a' }).accepted, true)
  while (looks.length < 3) {
    waiters.reported(X)
    await setImmediate()
  }
  for (const [index, { start, end }] of looks.slice(0, 2).entries()) {
    const next = looks[index + 1]?.start ?? 0
    // Timers count whole milliseconds.
    t.ok(next - end >= 4 * (end - start) - 2, `${next - end} ms after ${end - start}`)
  }
})

t.test('however a wait ends, nothing stays taken', async (t) => {
  const failing = {
    foreignChanges: () => 0,
    snapshots: async () => {
      throw new StoreUnavailable('away')
    },
  }
  const all = { client: 'a', contexts: 3, comparisons: 3 }
  const ends: Record<string, (waiters: Waiters) => Promise<unknown>> = {
    'the client disconnects': (waiters) => {
      const { abort, result } = waitOn(waiters)(all)
      abort()
      return result
    },
    'its time is over': (waiters) => waitOn(waiters)({ ...all, seconds: 0.01 }).result,
    'a look fails': (waiters) => {
      const { result } = waitOn(waiters)(all)
      waiters.reported(X)
      return result
    },
  }
  for (const [name, end] of Object.entries(ends)) {
    const waiters = new Waiters(failing, LIMITS)
    const ended = end(waiters)
    t.equal(waiters.size, 1, name)
    await ended
    t.equal(waiters.size, 0, name)
    t.equal(waitOn(waiters)({ ...all, commit: Y }).accepted, true, name)
    waiters.close()
    t.equal(waitOn(waiters)({ client: 'b' }).accepted, false, 'closed')
  }
})

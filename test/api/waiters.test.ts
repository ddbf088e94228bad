import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { Waiters, type WaitLimits } from '../../src/api/waiters.ts'
import { StoreUnavailable } from '../../src/store/engine.ts'
import type { CommitKey } from '../../src/store/statuses.ts'

/** Limits at which one request, or one commit, is all that a client may have, and two are all. */
const LIMITS: Partial<WaitLimits> = {
  requests: { total: 9, perClient: 9 },
  contexts: { total: 6, perClient: 3 },
  comparisons: { total: 6, perClient: 3 },
}
const [X, Y, Z]: CommitKey[] = ['x', 'y', 'z'].map((sha) => ({ repositoryId: 1, sha }))
const unchanged = { snapshots: async () => [], foreignChanges: () => 0 }

interface Request {
  client: string
  commit?: CommitKey | undefined
  contexts?: number
  comparisons?: number
  seconds?: number
}

/** Returns a function that waits; `accepted` tells whether the wait began. */
function start(waiters: Waiters) {
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
    const result = waiters.wait(commit ?? { repositoryId: 1, sha: '' }, wait, client, controller.signal)
    const accepted = waiters.size > before
    return { accepted, result: result.catch((error: Error) => error), abort: () => controller.abort() }
  }
}

t.test('one client cannot use up what another needs', async (t) => {
  const waiters = new Waiters(unchanged, LIMITS)
  t.teardown(() => waiters.close())
  const wait = start(waiters)
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
  const waiters = new Waiters(unchanged, LIMITS)
  t.teardown(() => waiters.close())
  const wait = start(waiters)
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
  const waiters = new Waiters(unchanged, LIMITS)
  t.teardown(() => waiters.close())
  const wait = start(waiters)
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

t.test('frequent reports are looked at for a fifth of the time', async (t) => {
  let looks = 0
  const slow = {
    ...unchanged,
    snapshots: async () => {
      looks++
      const end = performance.now() + 20
      while (performance.now() < end);
      return []
    },
  }
  const waiters = new Waiters(slow, LIMITS)
  t.teardown(() => waiters.close())
  t.equal(start(waiters)({ client: 'a' }).accepted, true)
  const before = performance.now()
  while (performance.now() - before < 500) {
    waiters.reported(X ?? { repositoryId: 1, sha: '' })
    await sleep(1)
  }
  const most = Math.ceil((performance.now() - before) / 100) + 1
  t.ok(looks > 0 && looks <= most, `${looks} looks of 20 ms, ${most} at most`)
})

t.test('however a wait ends, nothing stays taken', async (t) => {
  const failing = {
    ...unchanged,
    snapshots: async () => {
      throw new StoreUnavailable('away')
    },
  }
  const ends: Record<string, (request: ReturnType<ReturnType<typeof start>>, waiters: Waiters) => unknown> = {
    'the client disconnects': ({ abort }) => abort(),
    'its time is over': () => sleep(20),
    'a look fails': (_request, waiters) => waiters.reported(X ?? { repositoryId: 1, sha: '' }),
  }
  for (const [name, end] of Object.entries(ends)) {
    const waiters = new Waiters(failing, LIMITS)
    const wait = start(waiters)
    const request = wait({
      client: 'a',
      contexts: 3,
      comparisons: 3,
      seconds: name.includes('time') ? 0.01 : 60,
    })
    t.equal(request.accepted, true)
    await end(request, waiters)
    await request.result
    t.equal(waiters.size, 0, name)
    t.equal(wait({ client: 'a', commit: Y, contexts: 3, comparisons: 3 }).accepted, true, name)
    waiters.close()
    t.equal(wait({ client: 'b' }).accepted, false, 'closed')
  }
})

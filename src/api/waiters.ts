import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import type { CommitKey } from '../store/statuses.ts'
import type { Store } from '../store/store.ts'
import { SharedBudget, takeAll } from '../util/shared-budget.ts'
import { type Wait, WaitedCommit, Waiter } from './waited-commit.ts'

/*
 * A request waits until the contexts of a commit, with their states, have changed in a way that matters to it:
 *
 *   wait() ──▶ waiting ──▶ look: has it changed? ──▶ yes: wait() resolves, and the request is answered
 *                 ▲             │
 *                 └──── no ─────┘
 *
 * A look reads the waited commits in a few queries. It runs
 * - every second, for reports that other processes store and for all other changes;
 * - as soon as this process has stored a report, for the reported commits only.
 * If no other writer has changed the database, the look of each second skips commits whose waiters have all been asked.
 *
 * Looks compare contents, because `updated_at` has whole seconds. A waiter's first look always asks it, so a change between
 * its own read and that look is not missed. A look takes time in proportion to the contexts of all waited commits and to the
 * comparisons of contexts with patterns. Both are bounded, in total and per client, and looks of each kind take at most a
 * fifth of the time.
 */

/** Milliseconds between two looks. */
export const INTERVAL = 1_000
/** Minimum pause after a look, as a multiple of its duration. */
const REST = 4

/** Contexts that one statement reads, and more by the last commit. */
const BATCH = 2_000
/** Maximum number of waits that end in one turn of the event loop. Each takes a fraction of a millisecond. */
const AT_ONCE = 20

/** Bounds of one process: of all waiting requests together, and of those of one client address. */
export interface WaitLimits {
  requests: Limit
  /** Contexts of all commits that are waited for. */
  contexts: Limit
  /** Comparisons of a context with a pattern that all requests need for their answers. */
  comparisons: Limit
}

interface Limit {
  total: number
  perClient: number
}

export const DEFAULT_WAIT_LIMITS: WaitLimits = {
  requests: { total: 1_000, perClient: 100 },
  contexts: { total: 50_000, perClient: 10_000 },
  comparisons: { total: 2_000_000, perClient: 400_000 },
}

/** What waits need of the store. */
type Source = Pick<Store['statuses'], 'snapshots' | 'foreignChanges'>

/** The requests of this process that wait for a change of a commit. */
export class Waiters {
  readonly #source: Source
  readonly #requests: SharedBudget
  readonly #comparisons: SharedBudget
  /** Taken once per commit. */
  readonly #contexts: SharedBudget
  /** Taken by each client that waits for the commit. */
  readonly #clientContexts: SharedBudget
  readonly #commits = new Map<string, WaitedCommit>()
  /** Commits with a report that has not been looked at. */
  readonly #reported = new Set<WaitedCommit>()
  /** At the last look at all commits. */
  #foreignChanges: unknown
  /** Waits that end in one of the next turns of the event loop. */
  readonly #ending: (() => void)[] = []
  #isEnding = false
  #isLookingAtReported = false
  #isPolling = false
  #isClosed = false

  constructor(source: Source, limits: Partial<WaitLimits> = {}) {
    this.#source = source
    const { requests, comparisons, contexts } = { ...DEFAULT_WAIT_LIMITS, ...limits }
    this.#requests = new SharedBudget(requests.total, requests.perClient)
    this.#comparisons = new SharedBudget(comparisons.total, comparisons.perClient)
    this.#contexts = new SharedBudget(contexts.total, contexts.total)
    this.#clientContexts = new SharedBudget(Number.POSITIVE_INFINITY, contexts.perClient)
  }

  /** Number of waiting requests. */
  get size(): number {
    return this.#requests.taken
  }

  /**
   * Waits for a change of a commit, for the end of the wait, or until the server stops.
   *
   * @param signal aborts when the client disconnects
   * @returns false immediately if too many requests wait, or the server stops
   * @throws the signal's reason; the error of a look, such as StoreUnavailable
   */
  async wait(key: CommitKey, wait: Wait, client: string, signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted()
    if (this.#isClosed) return false
    const release = takeAll(client, [
      [this.#requests, 1],
      [this.#comparisons, wait.comparisons],
    ])
    const commit = release && this.#join(key, wait.contexts, client)
    if (!commit) {
      release?.()
      return false
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiter = new Waiter(wait, (error) =>
      this.#end(() => (error === undefined ? resolve() : reject(error))),
    )
    const disconnect = () => reject(signal.reason)
    const timer = setTimeout(waiter.end, Math.max(0, wait.until - performance.now()))
    signal.addEventListener('abort', disconnect)
    commit.waiters.add(waiter)
    if (!this.#isPolling) void this.#poll()
    try {
      await promise
      return true
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', disconnect)
      release()
      commit.waiters.delete(waiter)
      this.#leave(commit, client)
    }
  }

  /** Looks at a commit that this process has stored a report of. */
  reported(key: CommitKey): void {
    if (this.size === 0) return
    const commit = this.#commits.get(nameOf(key))
    if (commit === undefined) return
    this.#reported.add(commit)
    if (!this.#isLookingAtReported) void this.#lookAtReported()
  }

  /** Ends all waits, and lets none begin. */
  close(): void {
    this.#isClosed = true
    endAll(this.#commits.values())
  }

  async #lookAtReported(): Promise<void> {
    this.#isLookingAtReported = true
    while (this.#reported.size > 0) {
      const commits = [...this.#reported]
      this.#reported.clear()
      // Without a rest, frequent reports to a large commit would leave the event loop no time for anything but looks. What is
      // reported meanwhile shares the next look.
      await pause(await restAfter(() => this.#look(commits)))
    }
    this.#isLookingAtReported = false
  }

  async #poll(): Promise<void> {
    this.#isPolling = true
    let rest = 0
    while (this.size > 0) {
      // Other processes cannot notify this one, so it polls.
      await pause(Math.max(INTERVAL, rest))
      rest = await restAfter(() => this.#lookAtAll())
    }
    this.#isPolling = false
  }

  async #lookAtAll(): Promise<void> {
    const commits = [...this.#commits.values()]
    try {
      const before = this.#foreignChanges
      this.#foreignChanges = this.#source.foreignChanges()
      const isUnchanged = before !== undefined && before === this.#foreignChanges
      await this.#look(isUnchanged ? commits.filter(({ hasNewWaiter }) => hasNewWaiter) : commits)
    } catch (error) {
      endAll(commits, error)
    }
  }

  /** Ends the waits for which a commit has changed. If the commits cannot be read, it ends all their waits with the error. */
  async #look(commits: readonly WaitedCommit[]): Promise<void> {
    for (const batch of batchesOf(commits)) {
      try {
        for (const { contents, ...key } of await this.#source.snapshots(batch.map(({ key }) => key))) {
          const commit = this.#commits.get(nameOf(key))
          // Not awaited: what one client asks about a large commit does not delay the looks at others.
          commit?.look(contents).catch((error: unknown) => commit.endAll(error))
        }
      } catch (error) {
        endAll(batch, error)
      }
    }
  }

  /** Ends a wait. Spreads waits that end together over several turns of the event loop. */
  #end(end: () => void): void {
    this.#ending.push(end)
    if (!this.#isEnding) void this.#endInTurns()
  }

  async #endInTurns(): Promise<void> {
    this.#isEnding = true
    while (this.#ending.length > 0) {
      for (const end of this.#ending.splice(0, AT_ONCE)) end()
      await setImmediate()
    }
    this.#isEnding = false
  }

  /** Returns the commit that the client waits for; null if the budgets of contexts are used up. */
  #join(key: CommitKey, contexts: number, client: string): WaitedCommit | null {
    const name = nameOf(key)
    const commit = this.#commits.get(name) ?? new WaitedCommit(key)
    const share = commit.clients.get(client) ?? { waiting: 0, contexts: 0 }
    // The commit may have more contexts than when others began to wait.
    const ofClient = Math.max(0, contexts - share.contexts)
    const ofAll = Math.max(0, contexts - commit.contexts)
    if (!this.#clientContexts.take(client, ofClient)) return null
    if (!this.#contexts.take(name, ofAll)) {
      this.#clientContexts.release(client, ofClient)
      return null
    }
    commit.contexts += ofAll
    commit.clients.set(client, { waiting: share.waiting + 1, contexts: share.contexts + ofClient })
    this.#commits.set(name, commit)
    return commit
  }

  #leave(commit: WaitedCommit, client: string): void {
    const { waiting, contexts } = commit.clients.get(client) ?? { waiting: 1, contexts: 0 }
    if (waiting > 1) {
      commit.clients.set(client, { waiting: waiting - 1, contexts })
      return
    }
    commit.clients.delete(client)
    this.#clientContexts.release(client, contexts)
    if (commit.clients.size > 0) return
    this.#contexts.release(nameOf(commit.key), commit.contexts)
    this.#commits.delete(nameOf(commit.key))
    this.#reported.delete(commit)
  }
}

/** Runs a look. Returns how many milliseconds to rest after it, so that looks of its kind take at most a fifth of the time. */
async function restAfter(look: () => Promise<void>): Promise<number> {
  const start = performance.now()
  await look()
  return REST * (performance.now() - start)
}

/** Waits without keeping the process running: the connections of the waiting requests do that. */
function pause(milliseconds: number): Promise<void> {
  return sleep(milliseconds, undefined, { ref: false })
}

/** Returns the commits in groups that take a few milliseconds to read. */
function batchesOf(commits: readonly WaitedCommit[]): WaitedCommit[][] {
  const batches: WaitedCommit[][] = []
  let size = BATCH
  for (const commit of commits) {
    if (size >= BATCH) {
      batches.push([])
      size = 0
    }
    batches.at(-1)?.push(commit)
    size += commit.contexts
  }
  return batches
}

function endAll(commits: Iterable<WaitedCommit>, error?: unknown): void {
  for (const commit of commits) commit.endAll(error)
}

function nameOf({ repositoryId, sha }: CommitKey): string {
  return `${repositoryId} ${sha}`
}

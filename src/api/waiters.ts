import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import type { ReportedContext } from '../domain/verdict.ts'
import type { CommitKey } from '../store/statuses.ts'
import type { Store } from '../store/store.ts'

/*
 * A request waits until the contexts of a commit, with their states, have changed in a way that matters to it:
 *
 *   wait() ──▶ waiting ──▶ look: has it changed? ──▶ yes: wait() resolves, and the request is answered
 *                 ▲             │
 *                 └──── no ─────┘
 *
 * A look is one query for all commits that are waited for. There is one
 * - every second, for reports that other processes store, and for whatever else changes statuses;
 * - at once when this process has stored a report, for the commits of such reports alone.
 * Where the database tells that nobody else has changed it, the look of each second leaves out the commits whose waiters
 * have all had their first look.
 *
 * Contents are compared, since `updated_at` has whole seconds: two reports of one second are told apart. A waiter's first
 * look asks it in any case, so that nothing is missed that changed between its own read and the look. A look costs time in
 * proportion to the contexts of all waited commits, and to the comparisons of contexts with the patterns of all waiters.
 * Both are bounded, and looks take at most a fifth of the time.
 */

/** Milliseconds between two looks. */
const INTERVAL = 1_000
/** Least pause after a look, in multiples of its duration. */
const REST = 4

/** Requests that go on in one turn of the event loop. Each takes a fraction of a millisecond. */
const AT_ONCE = 20

/** Bounds of one process. */
export interface WaitLimits {
  /** Waiting requests. */
  total: number
  /** Waiting requests of one client address. */
  perClient: number
  /** Contexts of all commits that are waited for, together. */
  contexts: number
  /** Comparisons of a context with a pattern that all waiting requests need for an answer, together. */
  comparisons: number
}

const DEFAULT_WAIT_LIMITS: WaitLimits = {
  total: 1_000,
  perClient: 100,
  contexts: 50_000,
  comparisons: 2_000_000,
}

/** What a request waits for. */
export interface Wait {
  /** When the wait ends, by `performance.now()`. */
  until: number
  /** How many contexts the commit has. */
  contexts: number
  /** How many contexts the request compares with patterns. */
  comparisons: number
  /** Digest of the answer that the request has. */
  known: string
  /** Requests for a commit with the same question have the same digest. */
  question: string
  /** Returns the digest of what the request would answer now. */
  digest(reported: readonly ReportedContext[]): Promise<string>
}

/** What waits need of the store. */
type Source = Pick<Store['statuses'], 'contents' | 'foreignChanges'>

interface Waiter {
  wait: Wait
  /** The contents of its last look. */
  seen: string | null | undefined
  end(error?: unknown): void
}

interface WaitedCommit {
  key: CommitKey
  waiters: Set<Waiter>
  /** Counted against the limit. */
  contexts: number
  /** As of the last look. */
  contents: string | null | undefined
  /** Whether its waiters are being asked about the contents. */
  isBeingAsked: boolean
}

/** The requests of this process that wait for a change of a commit. */
export class Waiters {
  readonly #source: Source
  readonly #limits: WaitLimits
  readonly #commits = new Map<string, WaitedCommit>()
  readonly #perClient = new Map<string, number>()
  /** Commits with a report that has not been looked at. */
  readonly #reported = new Set<WaitedCommit>()
  /** As of the last look at all commits. */
  #foreignChanges: unknown
  /** Waits that end in one of the next turns of the event loop. */
  readonly #ending: (() => void)[] = []
  #isEnding = false
  #isLookingAtReported = false
  #isPolling = false
  #isClosed = false
  #size = 0
  #contexts = 0
  #comparisons = 0

  constructor(source: Source, limits: Partial<WaitLimits> = {}) {
    this.#source = source
    this.#limits = { ...DEFAULT_WAIT_LIMITS, ...limits }
  }

  /** Number of waiting requests. */
  get size(): number {
    return this.#size
  }

  /**
   * Waits for a change of a commit, for the end of the wait, or until the server stops.
   *
   * @param signal aborts when the client disconnects
   * @returns false at once if too many requests wait, or the server stops
   * @throws the signal's reason; the error of a look, such as StoreUnavailable
   */
  async wait(key: CommitKey, wait: Wait, client: string, signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted()
    const known = this.#commits.get(nameOf(key))
    if (this.#isClosed || !this.#hasRoom(client, known ? 0 : wait.contexts, wait.comparisons)) return false
    const commit = known ?? this.#add(key, wait.contexts)
    this.#count(client, 1)
    this.#comparisons += wait.comparisons
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiter: Waiter = {
      wait,
      seen: undefined,
      end: (error) => this.#end(() => (error === undefined ? resolve() : reject(error))),
    }
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
      this.#count(client, -1)
      this.#comparisons -= wait.comparisons
      commit.waiters.delete(waiter)
      if (commit.waiters.size === 0) this.#remove(commit)
    }
  }

  /** Looks at a commit that this process has stored a report of. */
  reported(key: CommitKey): void {
    if (this.#size === 0) return
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
      await this.#look(commits)
    }
    this.#isLookingAtReported = false
  }

  async #poll(): Promise<void> {
    this.#isPolling = true
    let pause = INTERVAL
    while (this.#size > 0) {
      // Waiting requests have connections, which keep the process running.
      await sleep(pause, undefined, { ref: false })
      const start = performance.now()
      await this.#lookAtAll()
      pause = Math.max(INTERVAL, REST * (performance.now() - start))
    }
    this.#isPolling = false
  }

  async #lookAtAll(): Promise<void> {
    const commits = [...this.#commits.values()]
    try {
      const before = this.#foreignChanges
      this.#foreignChanges = this.#source.foreignChanges()
      const isUnchanged = before !== undefined && before === this.#foreignChanges
      await this.#look(isUnchanged ? commits.filter(hasNewWaiter) : commits)
    } catch (error) {
      endAll(commits, error)
    }
  }

  /** Ends the waits for which a commit has changed. If the commits cannot be read, it ends all their waits with the error. */
  async #look(commits: readonly WaitedCommit[]): Promise<void> {
    if (commits.length === 0) return
    try {
      for (const { contents, ...key } of await this.#source.contents(commits.map(({ key }) => key))) {
        const commit = this.#commits.get(nameOf(key))
        // Not awaited: what one client asks about a large commit does not delay the looks at others.
        if (commit) endChanged(commit, contents).catch((error: unknown) => endAll([commit], error))
      }
    } catch (error) {
      endAll(commits, error)
    }
  }

  /** Ends a wait. Many that end together, as of a commit that many wait for, do so over several turns of the event loop. */
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

  #hasRoom(client: string, contexts: number, comparisons: number): boolean {
    const limits = this.#limits
    return (
      this.#size < limits.total &&
      (this.#perClient.get(client) ?? 0) < limits.perClient &&
      this.#contexts + contexts <= limits.contexts &&
      this.#comparisons + comparisons <= limits.comparisons
    )
  }

  #count(client: string, change: 1 | -1): void {
    this.#size += change
    const count = (this.#perClient.get(client) ?? 0) + change
    if (count > 0) this.#perClient.set(client, count)
    else this.#perClient.delete(client)
  }

  #add(key: CommitKey, contexts: number): WaitedCommit {
    const commit: WaitedCommit = {
      key,
      waiters: new Set(),
      contexts,
      contents: undefined,
      isBeingAsked: false,
    }
    this.#commits.set(nameOf(key), commit)
    this.#contexts += contexts
    return commit
  }

  #remove(commit: WaitedCommit): void {
    this.#contexts -= commit.contexts
    this.#commits.delete(nameOf(commit.key))
    this.#reported.delete(commit)
  }
}

function endAll(commits: Iterable<WaitedCommit>, error?: unknown): void {
  for (const { waiters } of commits) for (const waiter of waiters) waiter.end(error)
}

function hasNewWaiter({ waiters }: WaitedCommit): boolean {
  for (const { seen } of waiters) if (seen === undefined) return true
  return false
}

/** Ends the waits of a commit that its contents concern. Asks each of them once about the same contents. */
async function endChanged(commit: WaitedCommit, contents: string | null): Promise<void> {
  // Comparing a text with itself takes no time.
  if (commit.contents !== contents) commit.contents = contents
  if (commit.isBeingAsked) return
  commit.isBeingAsked = true
  // Contents that come meanwhile are asked about afterwards, so that frequent reports do not keep a waiter from its turn.
  for (let due = unasked(commit); due.length > 0; due = unasked(commit)) await ask(commit, due)
  commit.isBeingAsked = false
}

function unasked({ waiters, contents }: WaitedCommit): Waiter[] {
  return [...waiters].filter(({ seen }) => seen !== contents)
}

async function ask({ waiters, contents = null }: WaitedCommit, due: readonly Waiter[]): Promise<void> {
  const reported = parse(contents)
  const digests = new Map<string, Promise<string>>()
  for (const waiter of due) {
    if (!waiters.has(waiter)) continue
    waiter.seen = contents
    const { question, digest, known } = waiter.wait
    try {
      const current = digests.get(question) ?? digest(reported)
      digests.set(question, current)
      if ((await current) !== known) waiter.end()
    } catch (error) {
      waiter.end(error)
    }
  }
}

function parse(contents: string | null): ReportedContext[] {
  // As written by the statement of `contents`, from columns of these types.
  const pairs: [ReportedContext['context'], ReportedContext['state']][] = JSON.parse(contents ?? '[]')
  return pairs.map(([context, state]) => ({ context, state }))
}

function nameOf({ repositoryId, sha }: CommitKey): string {
  return `${repositoryId} ${sha}`
}

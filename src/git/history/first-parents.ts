import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { FairQueue, QueueClient } from '../../schedule/fair-queue.ts'
import { SharedRuns } from '../../schedule/shared-runs.ts'
import { shareOfMemory } from '../../util/memory.ts'
import { RepositoryUnavailable } from '../errors.ts'
import { type Disk, filesState } from '../file-state.ts'
import type { OpenedRepository, RepositoryFiles } from '../opened-repository.ts'
import { runGit } from '../run-git.ts'
import { runInSlot } from './cached-reads.ts'

/*
 * The first parents of a commit never change, so they are cached by its id, in segments:
 *
 *   tip ─▶ [ids of up to SEGMENT commits] ─ next ─▶ [ids …] ─ next ─▶ … ─▶ [ids …] ─ next: null
 *
 * A segment ends where another one that is cached begins. So the commits of a push are a short
 * segment before those that are known, and one git process reads what is missing, wherever it is.
 */

/** Commits that follow one another by first parents. */
interface Segment {
  /** Their ids, one after the other. */
  readonly ids: Buffer
  /** The id of the first parent of the last commit; null if it has none. */
  readonly next: string | null
}

/** What is wanted of a history. */
export interface Wanted {
  /** Full id in lower case of the commit after which the list begins; undefined: at the first one. */
  after: string | undefined
  /** Maximum number of commits. */
  count: number
}

/** A part of the first parents of a commit. */
export interface FirstParentList {
  /** Full ids in lower case, the newest first. */
  ids: string[]
  /** Whether the list goes on. */
  more: boolean
}

/** What is cached of a list. */
type Walk =
  | { isComplete: true; list: FirstParentList | null }
  /** `after` is still to be found if it is there; the rest begins with the commit `at`. */
  | { isComplete: false; ids: string[]; after: string | undefined; at: string }

/** Commits of a segment that is read. */
const SEGMENT = 1_000
const LIMITS = { maxBytes: shareOfMemory(48), timeout: 3_000 }
/** Cached segments that are searched at once, in about a millisecond. */
const SEARCHED_AT_ONCE = 500

interface FirstParentLimits {
  /** Bytes of ids in memory. The least recently used segments are dropped. */
  maxBytes: number
  /** Milliseconds of one git process. What it has read until then stays, so that the next goes on. */
  timeout: number
}

/** Lists the commits that branches were at, by first parents (`git log --first-parent`). */
export class FirstParents {
  readonly #queue: FairQueue
  readonly #timeout: number
  readonly #disk: Disk
  readonly #segments: LRUCache<string, Segment>
  readonly #runs = new SharedRuns<FirstParentList | null>()

  constructor(queue: FairQueue, limits: Partial<FirstParentLimits> = {}, disk: Disk = 'shared') {
    const { maxBytes, timeout } = { ...LIMITS, ...limits }
    this.#queue = queue
    this.#timeout = timeout
    this.#disk = disk
    this.#segments = new LRUCache({ maxSize: maxBytes, sizeCalculation: ({ ids }) => 200 + ids.length })
  }

  /**
   * Lists first parents.
   *
   * @param tip full id in lower case of the first commit
   * @returns null if the commit after which the list begins is not among the first parents of the
   * tip
   * @throws RepositoryUnavailable, QueueFull, the signal's reason
   */
  async list(
    repository: RepositoryFiles,
    tip: string,
    wanted: Wanted,
    client: QueueClient,
  ): Promise<FirstParentList | null> {
    if (wanted.after !== undefined && wanted.after.length !== tip.length) return null
    const prefix = await this.prefixOf(repository)
    const known = await this.#walk(prefix, tip, wanted, client.signal)
    if (known.isComplete) return known.list
    const find = async (opened: OpenedRepository, signal: AbortSignal) => {
      // What this run has waited for may have read it.
      const known = await this.#walk(prefix, tip, wanted, signal)
      if (known.isComplete) return known.list
      const { ids, after, at } = known
      const rest = await this.#read(opened, prefix, at, { after, count: wanted.count - ids.length }, signal)
      return rest && { ids: [...ids, ...rest.ids], more: rest.more }
    }
    return this.#runs.join(
      [prefix, tip, wanted.after, wanted.count].join('\0'),
      (waiting) => runInSlot(this.#queue, repository, waiting, (opened) => find(opened, waiting.signal)),
      client,
    )
  }

  /** Returns a text that is another one when the parents of a repository's commits may be others. */
  async prefixOf({ path }: RepositoryFiles): Promise<string> {
    // Nothing else changes them.
    const paths = ['shallow', 'info/grafts'].map((name) => join(path, name))
    const { stamps } = await filesState(paths, this.#disk)
    return `${path}\0${stamps}\0`
  }

  /** Lists what is cached. */
  async #walk(
    prefix: string,
    tip: string,
    { after, count }: Wanted,
    signal: AbortSignal | undefined,
  ): Promise<Walk> {
    const ids: string[] = []
    const size = tip.length / 2
    let sought = after === undefined ? undefined : Buffer.from(after, 'hex')
    for (let at = tip, searched = 1; ; searched++) {
      const segment = this.#segments.get(prefix + at)
      if (segment === undefined)
        return ids.length === count && !sought
          ? { isComplete: true, list: { ids, more: true } }
          : { isComplete: false, ids, after: sought && after, at }
      let from = 0
      if (sought) {
        const index = indexOfId(segment.ids, sought)
        from = index === -1 ? segment.ids.length : index + size
        if (index !== -1) sought = undefined
      }
      for (; from < segment.ids.length; from += size) {
        const id = segment.ids.toString('hex', from, from + size)
        if (ids.length === count) return { isComplete: true, list: { ids, more: true } }
        ids.push(id)
      }
      if (segment.next === null) return { isComplete: true, list: sought ? null : { ids, more: false } }
      at = segment.next
      if (searched % SEARCHED_AT_ONCE === 0) await setImmediate(undefined, { signal })
    }
  }

  /** Reads first parents from a commit on, and caches them. */
  async #read(
    repository: OpenedRepository,
    prefix: string,
    first: string,
    { after, count }: Wanted,
    signal: AbortSignal,
  ): Promise<FirstParentList | null> {
    const ids: string[] = []
    let [isFound, more, rest] = [after === undefined, false, '']
    let segment: string[] = []
    const store = (next: string | null) => {
      const [start] = segment
      const key = `${prefix}${start}`
      // Another one may be longer.
      if (start !== undefined && !this.#segments.has(key))
        this.#segments.set(key, { ids: Buffer.from(segment.join(''), 'hex'), next })
      segment = []
    }
    const take = (id: string) => {
      if (segment.length >= SEGMENT || (segment.length > 0 && this.#segments.has(prefix + id))) store(id)
      segment.push(id)
      if (!isFound) isFound = id === after
      else if (ids.length < count) ids.push(id)
      else more = true
    }
    const output = {
      push(chunk: Buffer) {
        const lines = (rest + chunk.toString('latin1')).split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) if (!more) take(line)
      },
      get isFull() {
        return more
      },
    }

    // One more, which tells that the list goes on.
    const limit = isFound ? [`--max-count=${count + 1}`] : []
    const args = ['rev-list', '--first-parent', ...limit, first, '--']
    let isComplete = false
    try {
      const failure = await runGit(repository, args, output, this.#timeout, signal)
      if (failure)
        throw new RepositoryUnavailable(
          `git could not list the commits of ${repository.path}: ${failure.message}`,
        )
      isComplete = !more
    } finally {
      // The segments before a failure are right too. Otherwise the last commit begins the next one.
      const next = isComplete ? null : (segment.pop() ?? null)
      if (isComplete || next !== null) store(next)
    }
    return isFound ? { ids, more } : null
  }
}

/** Returns where an id begins; -1 if it is not there. */
function indexOfId(ids: Buffer, id: Buffer): number {
  let index = ids.indexOf(id)
  // Parts of two neighbors may look like it.
  while (index !== -1 && index % id.length !== 0) index = ids.indexOf(id, index + 1)
  return index
}

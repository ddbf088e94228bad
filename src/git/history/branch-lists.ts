import { isUtf8 } from 'node:buffer'
import { setImmediate } from 'node:timers/promises'
import { schemas } from '../../../generated/schemas.ts'
import { BRANCHES } from '../../domain/ref-names.ts'
import type { FairQueue, QueueClient } from '../../schedule/fair-queue.ts'
import { bytesOfTexts, shareOfMemory } from '../../util/memory.ts'
import { unavailable } from '../errors.ts'
import type { Disk } from '../file-state.ts'
import { type OpenedRepository, openRepository, type RepositoryFiles } from '../opened-repository.ts'
import type { ListLimits } from '../record-parser.ts'
import { BranchFiles } from '../refs/branch-files.ts'
import { readRefState, readRefsState } from '../refs/head.ts'
import { listRefs } from '../refs/list-refs.ts'
import { isRefName } from '../refs/read-refs.ts'
import { type RefIds, readRefFiles, readRefIds } from '../refs/ref-ids.ts'
import { CachedReads } from './cached-reads.ts'

/** Maximum number of branches of a list. */
export const MAX_LISTED_BRANCHES = 20_000
const LIMITS: ListLimits = { count: MAX_LISTED_BRANCHES, timeout: 10_000 }
/** Branches that are taken in one turn of the event loop, in about a millisecond. */
const TAKEN_AT_ONCE = 2_000
/** Bytes of branches in memory. The least recently used lists are dropped. */
const CACHE_BYTES = shareOfMemory(48)
/** Bytes of single branches in memory. */
const TIPS_BYTES = shareOfMemory(4)

/** A branch and the commit that it is at. */
export interface Tip {
  /** What follows `refs/heads/`. */
  name: string
  /** Full id in lower case. */
  sha: string
}

/** The branches of a repository. */
export interface BranchList {
  /** Ordered by the code points of their names. */
  tips: readonly Tip[]
  /** Number of branches that are left out, as the contract has no text for their names. */
  unnamed: number
  /** Whether there are more branches than these. */
  more: boolean
}

/**
 * Lists branches by name. Nothing is read of their commits, so that a long list costs little, and a
 * process is started only where git's files do not tell.
 */
export class BranchLists {
  readonly #limits: ListLimits
  readonly #lists: CachedReads<BranchList>
  readonly #disk: Disk
  readonly #files: BranchFiles
  /** Where single branches are. */
  readonly #tips: CachedReads<RefIds>

  constructor(queue: FairQueue, limits: Partial<ListLimits> = {}, disk: Disk = 'shared') {
    this.#limits = { ...LIMITS, ...limits }
    this.#disk = disk
    this.#files = new BranchFiles(disk)
    this.#lists = new CachedReads(
      queue,
      CACHE_BYTES,
      ({ tips }) => 120 * tips.length + bytesOfTexts(tips.map(({ name }) => name)),
    )
    this.#tips = new CachedReads(queue, TIPS_BYTES, (ids) => bytesOfTexts(ids.keys()))
  }

  /** Returns the branches as of now: the same list until a ref changes. Throws as `CachedReads.get`. */
  list(repository: RepositoryFiles, client: QueueClient): Promise<BranchList> {
    const { path } = repository
    return this.#lists.get(repository, path, client, {
      state: () => readRefsState(path, this.#disk),
      read: (opened, signal) => this.#read(opened, signal),
    })
  }

  /**
   * Returns the commit that a branch is at; null if it does not exist. A process is started only where
   * git's files do not tell, and only after they have changed. Others' disks are not asked whether
   * their files have changed, but for what is in them: they may answer from memory.
   *
   * @param name anything a client may send, without `refs/heads/`
   * @throws as `CachedReads.get`
   */
  async tipOf(repository: RepositoryFiles, name: string, client: QueueClient): Promise<string | null> {
    if (!isRefName(name)) return null
    const ref = Buffer.from(`${BRANCHES}${name}`).toString('latin1')
    const known =
      (this.#disk === 'shared' && (await readFiles(repository, ref, client))) ||
      (await this.#tips.get(repository, `${repository.path}\0${ref}`, client, {
        state: () => readRefState(repository.path, ref, this.#disk),
        read: (opened, signal) => readRefIds(opened, [ref], { timeout: this.#limits.timeout, signal }),
      }))
    return known.get(ref) ?? null
  }

  async #read(repository: OpenedRepository, signal: AbortSignal): Promise<BranchList> {
    const tips: Tip[] = []
    const { count, timeout } = this.#limits
    let [refs, unnamed] = [0, 0]
    const take = ([ref = '', sha = '']: readonly string[]) => {
      refs++
      if (refs > count) return
      const name = nameOf(ref.slice(BRANCHES.length))
      if (name === null) unnamed++
      else tips.push({ name, sha })
    }
    try {
      // Sorted by the bytes of names, whose order in UTF-8 is that of code points.
      const listed = await this.#files.list(repository.path, count + 1, signal)
      for (const [index, ref] of listed?.entries() ?? []) {
        take(ref)
        if (index % TAKEN_AT_ONCE === 0) await setImmediate(undefined, { signal })
      }
      const options = { args: [`--count=${count + 1}`, BRANCHES], timeout, signal }
      if (!listed) await listRefs(repository, ['refname', 'objectname'], options, take)
    } catch (error) {
      throw unavailable(repository.path, error)
    }
    return { tips, unnamed, more: refs > count }
  }
}

/** Returns where a ref is; null if only git can tell. */
async function readFiles(
  repository: RepositoryFiles,
  ref: string,
  { signal }: QueueClient,
): Promise<RefIds | null> {
  const { path } = await openRepository(repository)
  return readRefFiles(path, new Set([ref]), signal).catch((error: unknown) => {
    throw unavailable(path, error)
  })
}

/** Returns a name as the contract's text; null if it is none. @param latin1 its bytes */
function nameOf(latin1: string): string | null {
  const { maxLength } = schemas.Branch
  if (/^[!-~]*$/.test(latin1)) return latin1.length > maxLength ? null : latin1
  const bytes = Buffer.from(latin1, 'latin1')
  if (!isUtf8(bytes)) return null
  const name = bytes.toString()
  return [...name].length > maxLength ? null : name
}

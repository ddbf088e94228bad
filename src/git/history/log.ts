import type { FairQueue, QueueClient } from '../../schedule/fair-queue.ts'
import { bytesOfTexts, shareOfMemory } from '../../util/memory.ts'
import type { Disk } from '../file-state.ts'
import type { RepositoryFiles } from '../opened-repository.ts'
import type { ListLimits } from '../record-parser.ts'
import { readDefaultBranch, readHeadState } from '../refs/head.ts'
import { CachedReads } from './cached-reads.ts'
import { type Commit, readLog } from './log-reader.ts'

const LIMITS: ListLimits = { count: 30, timeout: 10_000 }
/** Bytes of commits in memory, and of those of HEAD. The least recently used lists are dropped. */
const [CACHE_BYTES, HEADS_BYTES] = [shareOfMemory(24), shareOfMemory(8)]
/** Commits between two others that are listed. */
const BETWEEN = 100
/** Maximum number of commits that a page starts from. */
export const MAX_STARTS = 40

/** Where HEAD of a repository is. */
interface Head {
  /** null if HEAD leads to no branch. */
  branch: string | null
  /** The newest first. */
  commits: readonly Commit[]
}

/** A page of a history. */
export interface History {
  commits: readonly Commit[]
  /**
   * What the next page comes after: the last commit of this page, then the commits on other lines
   * of history that come next. null if this is the last page.
   */
  after: readonly string[] | null
}

/** Lists commits of repositories for pages. Lists are cached, and read once for all who ask. */
export class CommitLog {
  readonly #limits: ListLimits
  readonly #disk: Disk
  readonly #heads: CachedReads<Head>
  readonly #reads: CachedReads<readonly Commit[]>

  constructor(queue: FairQueue, limits: Partial<ListLimits> = {}, disk: Disk = 'shared') {
    this.#limits = { ...LIMITS, ...limits }
    this.#disk = disk
    this.#heads = new CachedReads(queue, HEADS_BYTES, ({ commits }) => bytesOf(commits))
    this.#reads = new CachedReads(queue, CACHE_BYTES, bytesOf)
  }

  /** Returns the commits of `head`. */
  async newest(repository: RepositoryFiles, client: QueueClient): Promise<readonly Commit[]> {
    return (await this.head(repository, client)).commits
  }

  /**
   * Returns the branch to which HEAD leads, and at most `count` of its newest commits, or none if it has
   * no commits. A push takes effect at once. Throws as `CachedReads.get`.
   */
  head(repository: RepositoryFiles, client: QueueClient): Promise<Head> {
    const { path } = repository
    return this.#heads.get(repository, path, client, {
      state: () => readHeadState(path, this.#disk),
      read: async (opened, signal) => ({
        branch: await readDefaultBranch(path),
        commits: await readLog(opened, 'HEAD', this.#limits, signal),
      }),
    })
  }

  /** Returns the answer of `head` if it is known without git. */
  knownHead({ path }: Pick<RepositoryFiles, 'path'>): Promise<Head | undefined> {
    return this.#heads.known(path)
  }

  /**
   * Returns at most `count` of the newest commits of branches together. Throws as `CachedReads.get`.
   *
   * @param tips the commits of branches, at most `MAX_STARTS`
   */
  async ofBranches(
    repository: RepositoryFiles,
    tips: readonly string[],
    client: QueueClient,
  ): Promise<readonly Commit[]> {
    if (tips.length === 0) return []
    return this.#reads.get(repository, ['branches', repository.path, ...tips].join('\0'), client, {
      read: (opened, signal) => readLog(opened, tips, this.#limits, signal),
    })
  }

  /**
   * Lists the commits that one commit contains and another one does not, through all parents: the first
   * one itself, then others, the newest first. Throws as `CachedReads.get`.
   *
   * @param first full id
   * @param last full id; null lists the first one alone
   */
  async between(
    repository: RepositoryFiles,
    first: string,
    last: string | null,
    client: QueueClient,
  ): Promise<{ commits: readonly Commit[]; more: boolean }> {
    const limits = { ...this.#limits, count: last === null ? 1 : BETWEEN + 1 }
    const revisions = last === null ? [first] : [first, `^${last}`]
    const key = ['between', repository.path, ...revisions].join('\0')
    const commits = await this.#reads.get(repository, key, client, {
      read: (opened, signal) => readLog(opened, revisions, limits, signal),
    })
    return { commits: commits.slice(0, BETWEEN), more: commits.length > BETWEEN }
  }

  /**
   * Returns a page of the history of a commit, in the order of `git log`. Its cost does not depend
   * on how many pages come before it, because git starts at the commits that the previous page
   * ended with, not at the newest one.
   *
   * Where lines of history run in parallel, the next page starts from the next commit of each. If
   * there are more than `MAX_STARTS`, commits that only the further ones lead to are left out. For
   * example with two commits on a page:
   *
   * ```
   *   F ─┬─ E ─── C ─┬─ A    F is a merge; `git log` prints F E D C B A
   *      └─ D ─── B ─┘
   *
   *   from F          F E    after: E, and D, which was reached but not shown. E leads to C
   *   after E, D      D C    after: C, and B. git starts at E and D; E has been shown
   *   after C, B      B A    after: null
   * ```
   *
   * @param from the first commit, or `after` of the previous page. All are full ids of commits in
   * the repository
   */
  async history(
    repository: RepositoryFiles,
    from: { first: string } | { after: readonly string[] },
    client: QueueClient,
  ): Promise<History> {
    const starts = 'first' in from ? [from.first] : from.after.slice(0, MAX_STARTS)
    const shownId = 'first' in from ? undefined : starts[0]
    // One more for the commit that the previous page has shown.
    const limits = { ...this.#limits, count: this.#limits.count + 1 }
    const key = [repository.path, ...starts].join('\0')
    const listedCommits = await this.#reads.get(repository, key, client, {
      read: (opened, signal) => readLog(opened, starts, limits, signal),
    })

    const commits = listedCommits.filter(({ sha }) => sha !== shownId).slice(0, this.#limits.count)
    const last = commits.at(-1)
    const seenIds = new Set([...commits.map(({ sha }) => sha), shownId])
    const reachedIds = [
      ...starts,
      ...listedCommits.filter(({ sha }) => seenIds.has(sha)).flatMap(({ parents }) => parents),
    ]
    const others = new Set(reachedIds.filter((sha) => !seenIds.has(sha)))
    if (last === undefined || others.size === 0) return { commits, after: null }
    for (const parent of last.parents) others.delete(parent)
    return { commits, after: [last.sha, ...others].slice(0, MAX_STARTS) }
  }
}

function bytesOf(commits: readonly Commit[]): number {
  return commits.reduce(
    (sum, { parents, author, subject }) => sum + 300 + bytesOfTexts([...parents, author, subject]),
    0,
  )
}

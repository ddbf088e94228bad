import { randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { FairQueue } from '../../util/fair-queue.ts'
import { memoizeByObject } from '../../util/memoize.ts'
import type { RepositoryFolder } from '../repository-owner.ts'
import { decodeLatin1, readGit } from '../run-git.ts'
import { CachedReads, createGitQueue, type GitClient, runInSlot } from './cached-reads.ts'
import { readRefsState } from './head.ts'
import type { ListLimits } from './log-reader.ts'
import { type Ref, type Refs, readRef, readRefs } from './refs-reader.ts'

export type { Ref, Refs }

const LIMITS: ListLimits = { count: 20_000, timeout: 10_000 }
/** Maximum number of refs in memory. The least recently used lists are dropped. */
const MAX_REFS = 200_000

/** Lists the branches and tags of repositories. A list is cached until a ref changes. */
export class RefLists {
  readonly #limits: ListLimits
  readonly #queue: FairQueue
  readonly #reads: CachedReads<Refs>
  readonly #containing: CachedReads<readonly Ref[]>
  /** The latest answer about a commit, whatever has been pushed since. */
  readonly #contained = new LRUCache<string, ReadonlySet<string>>({
    maxSize: MAX_REFS,
    sizeCalculation: ({ size }) => 10 + size,
  })
  /** The same list is returned until a ref changes. */
  readonly #idOf = memoizeByObject((_refs: Refs) => randomUUID())

  constructor(queue: FairQueue, limits: Partial<ListLimits> = {}) {
    this.#queue = queue
    this.#limits = { ...LIMITS, ...limits }
    this.#reads = new CachedReads(queue, MAX_REFS, ({ branches, tags }) => branches.length + tags.length)
    // It takes git seconds where there are many branches, and pages do without. So nothing else waits for it.
    this.#containing = new CachedReads(createGitQueue(1), MAX_REFS, ({ length }) => length)
  }

  /** Returns the branches and tags, the newest first, and HEAD. A push takes effect at once. Throws as `CachedReads.get`. */
  list(repository: RepositoryFolder, client: GitClient): Promise<Refs> {
    const { path } = repository
    return this.#reads.get(repository, path, client, {
      state: () => readRefsState(path),
      read: (signal) => readRefs(path, this.#limits, signal),
    })
  }

  /** Returns the branches of `list` that contain a commit. Throws as `CachedReads.get`. */
  containing(repository: RepositoryFolder, refs: Refs, sha: string, client: GitClient) {
    const { path } = repository
    const args = ['for-each-ref', `--contains=${sha}`, `--count=${this.#limits.count}`]
    const all = [...args, '--format=%(refname:lstrip=2)', 'refs/heads/']
    const timeout = this.#limits.timeout / 2
    return this.#containing.get(repository, `${this.#idOf(refs)} ${sha}`, client, {
      read: async (signal) => {
        const names = new Set(decodeLatin1(await readGit(path, all, { timeout, signal })).split('\n'))
        this.#contained.set(`${path} ${sha}`, names)
        return this.contained(repository, refs, sha)
      },
    })
  }

  /** Returns the branches whose tip is a commit, and what `containing` found before the latest pushes. */
  contained({ path }: RepositoryFolder, { branches }: Refs, sha: string): readonly Ref[] {
    const names = this.#contained.get(`${path} ${sha}`)
    return branches.filter(({ name, sha: tip }) => tip === sha || names?.has(name))
  }

  /**
   * Finds a branch, or else a tag, of exactly this name. `refs/heads/x` and `refs/tags/x` are also accepted, unless a branch
   * or tag has that name itself.
   *
   * @param refs the answer of `list`
   * @param name anything a user may send
   */
  async find(repository: RepositoryFolder, refs: Refs, name: string, client: GitClient): Promise<Ref | null> {
    const named = (list: readonly Ref[], prefix: string) => list.find((ref) => prefix + ref.name === name)
    const listed =
      named(refs.branches, '') ??
      named(refs.tags, '') ??
      named(refs.branches, 'refs/heads/') ??
      named(refs.tags, 'refs/tags/')
    return listed ?? (refs.more ? this.findUnlisted(repository, name, client) : null)
  }

  /** Finds a branch, or else a tag, of exactly this name, without the list. Arguments and errors as `find`. */
  findUnlisted(repository: RepositoryFolder, name: string, client: GitClient): Promise<Ref | null> {
    const read = () => readRef(repository.path, name, this.#limits.timeout, client.signal)
    return runInSlot(this.#queue, repository, client, read)
  }
}

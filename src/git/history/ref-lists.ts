import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { LRUCache } from 'lru-cache'
import { BRANCHES, TAGS } from '../../domain/ref-names.ts'
import type { FairQueue, QueueClient } from '../../schedule/fair-queue.ts'
import { memoizeByObject } from '../../util/memoize.ts'
import { bytesOfTexts, shareOfMemory } from '../../util/memory.ts'
import { type Disk, filesState } from '../file-state.ts'
import type { RepositoryFiles } from '../opened-repository.ts'
import type { ListLimits } from '../record-parser.ts'
import { followsDeletions } from '../refs/default-branch.ts'
import { readRefsState } from '../refs/head.ts'
import { type Ref, type Refs, readRef, readRefs } from '../refs/read-refs.ts'
import { decodeLatin1, readGit } from '../run-git.ts'
import { CachedReads, createGitQueue, runInSlot } from './cached-reads.ts'

const LIMITS: ListLimits = { count: 20_000, timeout: 10_000 }
/**
 * Bytes of refs in memory, of names of branches, and of settings of repositories. The least recently
 * used lists are dropped.
 */
const CACHE_BYTES = shareOfMemory(64)
const NAMES_BYTES = shareOfMemory(16)
const SETTINGS_BYTES = shareOfMemory(1)

/** Lists the branches and tags of repositories. A list is cached until a ref changes. */
export class RefLists {
  readonly #limits: ListLimits
  readonly #queue: FairQueue
  readonly #disk: Disk
  readonly #reads: CachedReads<Refs>
  readonly #containing: CachedReads<readonly Ref[]>
  readonly #settings: CachedReads<{ follows: boolean }>
  /** The latest answer about a commit, whatever has been pushed since. */
  readonly #contained = new LRUCache<string, ReadonlySet<string>>({
    maxSize: NAMES_BYTES,
    sizeCalculation: (names, key) => 200 + bytesOfTexts([key, ...names]),
  })
  /** The same list is returned until a ref changes. */
  readonly #idOf = memoizeByObject((_refs: Refs) => randomUUID())

  constructor(queue: FairQueue, limits: Partial<ListLimits> = {}, disk: Disk = 'shared') {
    this.#queue = queue
    this.#disk = disk
    this.#limits = { ...LIMITS, ...limits }
    this.#reads = new CachedReads(
      queue,
      CACHE_BYTES,
      ({ branches, tags }) => bytesOf(branches) + bytesOf(tags),
    )
    this.#settings = new CachedReads(queue, SETTINGS_BYTES, () => 0)
    // It takes git seconds where there are many branches. Nothing waits for it: pages do without.
    this.#containing = new CachedReads(createGitQueue(1), NAMES_BYTES, bytesOf)
  }

  /**
   * Returns branches and tags, the newest first, and HEAD, as of now. Throws as `CachedReads.get`.
   */
  list(repository: RepositoryFiles, client: QueueClient): Promise<Refs> {
    const { path } = repository
    return this.#reads.get(repository, path, client, {
      state: () => readRefsState(path, this.#disk),
      read: (opened, signal) => readRefs(opened, this.#limits, signal),
    })
  }

  /** Returns the answer of `list` if it is known without git. */
  known({ path }: Pick<RepositoryFiles, 'path'>): Promise<Refs | undefined> {
    return this.#reads.known(path)
  }

  /** Returns the branches of `list` that contain a commit. Throws as `CachedReads.get`. */
  containing(repository: RepositoryFiles, refs: Refs, sha: string, client: QueueClient) {
    const { path } = repository
    const args = ['for-each-ref', `--contains=${sha}`, `--count=${this.#limits.count}`]
    const all = [...args, '--format=%(refname:lstrip=2)', BRANCHES]
    const timeout = this.#limits.timeout / 2
    return this.#containing.get(repository, `${this.#idOf(refs)} ${sha}`, client, {
      read: async (opened, signal) => {
        const output = await readGit(opened, all, { timeout, signal })
        const names = new Set(decodeLatin1(output).split('\n'))
        this.#contained.set(`${path} ${sha}`, names)
        return this.contained(repository, refs, sha)
      },
    })
  }

  /** Returns the branches whose tip is a commit, and the latest answer of `containing`. */
  contained({ path }: RepositoryFiles, { branches }: Refs, sha: string): readonly Ref[] {
    const names = this.#contained.get(`${path} ${sha}`)
    return branches.filter(({ name, sha: tip }) => tip === sha || names?.has(name))
  }

  /** Returns the default branch if it has moved on from a commit, by the latest answer of `containing`. */
  movedOn(
    { path }: Pick<RepositoryFiles, 'path'>,
    { branches, defaultBranch }: Refs,
    sha: string,
  ): Ref | undefined {
    if (defaultBranch === null || !this.#contained.get(`${path} ${sha}`)?.has(defaultBranch)) return undefined
    return branches.find(({ name, sha: tip }) => name === defaultBranch && tip !== sha)
  }

  /** Returns whether HEAD leaves a branch that a push deletes. Throws as `CachedReads.get`. */
  async followsDeletions(repository: RepositoryFiles, client: QueueClient): Promise<boolean> {
    const { path } = repository
    const { follows } = await this.#settings.get(repository, path, client, {
      state: () => filesState([join(path, 'config')], this.#disk),
      read: async (opened) => ({ follows: await followsDeletions(opened) }),
    })
    return follows
  }

  /**
   * Finds a branch, or else a tag, of exactly this name. `refs/heads/x` and `refs/tags/x` are also
   * accepted, unless a branch or tag has that name itself.
   *
   * @param refs the answer of `list`
   * @param name anything a user may send
   */
  async find(
    repository: RepositoryFiles,
    refs: Refs,
    name: string,
    client: QueueClient,
  ): Promise<Ref | null> {
    const findIn = (list: readonly Ref[], prefix: string) => list.find((ref) => prefix + ref.name === name)
    const listedRef =
      findIn(refs.branches, '') ??
      findIn(refs.tags, '') ??
      findIn(refs.branches, BRANCHES) ??
      findIn(refs.tags, TAGS)
    return listedRef ?? (refs.more ? this.findUnlisted(repository, name, client) : null)
  }

  /** Finds a branch, or else a tag, of exactly this name without the list. Otherwise as `find`. */
  findUnlisted(repository: RepositoryFiles, name: string, client: QueueClient): Promise<Ref | null> {
    const { timeout } = this.#limits
    return runInSlot(this.#queue, repository, client, (opened) =>
      readRef(opened, name, timeout, client.signal),
    )
  }
}

function bytesOf(refs: readonly Ref[]): number {
  return 200 * refs.length + bytesOfTexts(refs.map(({ name }) => name))
}

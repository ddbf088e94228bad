import { BRANCHES } from '../domain/ref-names.ts'
import { FirstParents } from '../git/history/first-parents.ts'
import { FormerTips } from '../git/history/former-tips.ts'
import type { RepositoryFiles } from '../git/opened-repository.ts'
import type { FairQueue, QueueClient } from '../schedule/fair-queue.ts'
import type { Store } from '../store/store.ts'
import { shareOfMemory } from '../util/memory.ts'

/** Where a branch is. */
export interface Position {
  /** null for the first parents of a commit. */
  branch: string | null
  sha: string
}

/** Commits that are looked at for reports while the newest one has none. */
export const UNREPORTED = 10
/** Commits that are listed, by the moves of a branch that are read. */
const LISTED = { latest: 1 + UNREPORTED, newest: 300 }
const CACHE_BYTES = shareOfMemory(8)

/** Lists the commits that branches were at, for pages. */
export class BranchCommits {
  readonly #formerTips: FormerTips
  readonly #store: Pick<Store, 'listTips'>

  constructor(queue: FairQueue, store: Pick<Store, 'listTips' | 'remote'>) {
    const limits = { maxBytes: CACHE_BYTES }
    const disk = store.remote ? 'shared' : 'own'
    this.#formerTips = new FormerTips(queue, new FirstParents(queue, limits, disk), limits)
    this.#store = store
  }

  /**
   * Lists the commits that a branch was at. Throws as `runInSlot`.
   *
   * @returns full ids, the newest first
   */
  async list(
    repository: RepositoryFiles & { id: number },
    { branch, sha }: Position,
    moves: keyof typeof LISTED,
    client: QueueClient,
  ): Promise<string[]> {
    const ref = branch === null ? null : Buffer.from(`${BRANCHES}${branch}`).toString('latin1')
    const tips = ref === null ? [sha] : await this.#store.listTips(repository.id, ref, sha, moves)
    const wanted = { after: undefined, count: LISTED[moves] }
    const list = await this.#formerTips.list(repository, tips, wanted, client)
    return list?.ids ?? [sha]
  }
}

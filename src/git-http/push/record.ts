import { GitFailed, RepositoryUnavailable } from '../../git/errors.ts'
import { openRepository, type RepositoryFiles } from '../../git/opened-repository.ts'
import type { Pusher, RefUpdate } from '../../store/audit/audit.ts'
import type { PushOutcome } from '../../store/repositories/pushes.ts'
import type { Store } from '../../store/store.ts'
import { persist } from '../../util/persist.ts'
import { syncFolders } from './folder-sync.ts'
import { type RefIds, readRefIds } from './ref-graph.ts'

/**
 * Records what became of a push.
 *
 * @param updated the updates that git reported; null: the refs are compared
 */
export type SettlePush = (updated: readonly RefUpdate[] | null) => Promise<void>

/** Milliseconds between two searches for pushes whose end was not recorded. */
const INTERVAL = 10_000
/**
 * Milliseconds after which git is stopped while refs are compared: other events wait for it, and so
 * does a server that stops.
 */
const TIMEOUT = 30_000
const NO_OBJECT = /^0+$/

/** Records pushes: see `pushStore`. */
export class PushRecorder {
  readonly #pushes: Store['pushes']
  readonly #overdue: number
  readonly #onError: (error: unknown) => void
  /** The pushes of this process that it will settle itself. */
  readonly #active = new Set<number>()
  readonly #pending = new Set<Promise<void>>()
  #timer: NodeJS.Timeout | undefined
  /** Ends the search for pushes of others; undefined until `close`. */
  #end: AbortSignal | undefined

  /**
   * @param overdue milliseconds after which git has ended, also one of another process that was
   * killed
   * @param onError receives the error of a push that could not be settled. It is tried again once
   * the push is overdue
   */
  constructor(pushes: Store['pushes'], overdue: number, onError: (error: unknown) => void) {
    this.#pushes = pushes
    this.#overdue = overdue
    this.#onError = onError
    this.#settleRegularly()
  }

  /**
   * Stores a push before git starts. Returns a function to call when git has ended.
   *
   * @param before the refs that it names
   */
  async begin(
    pusher: Pusher,
    repository: RepositoryFiles,
    commands: readonly RefUpdate[],
    before: RefIds,
  ): Promise<SettlePush> {
    const id = await this.#pushes.begin(pusher, commands)
    this.#active.add(id)
    const settle = async (updated: readonly RefUpdate[] | null) => {
      const outcome: PushOutcome = updated
        ? { updates: updated.filter(isMove) }
        : { ...(await compareRefs(repository, commands, before)), unreported: true }
      await persist(() => this.#pushes.settle(id, pusher, outcome))
    }
    return (updated) => this.#track(settle(updated).finally(() => this.#active.delete(id)))
  }

  /**
   * Resolves when everything is settled that can be now. Another instance, or the next start,
   * settles what takes too long.
   */
  async close(): Promise<void> {
    this.#end = AbortSignal.timeout(TIMEOUT)
    clearTimeout(this.#timer)
    await Promise.all(this.#pending)
  }

  /** One search after the other: a repository may not answer. */
  async #settleRegularly(): Promise<void> {
    await this.#track(this.#settleOverdue())
    if (!this.#end) this.#timer = setTimeout(() => this.#settleRegularly(), INTERVAL).unref()
  }

  async #settleOverdue(): Promise<void> {
    for (const { id, pusher, repository, commands } of await this.#pushes.listOpen(this.#overdue)) {
      if (this.#active.has(id)) continue
      const outcome = await compareRefs(repository, commands)
      await this.#pushes.settle(id, pusher, { ...outcome, interrupted: true })
      if (this.#end?.aborted) return
    }
  }

  /** Never rejects: the refs have moved, so it is too late to refuse the push. */
  #track(work: Promise<void>): Promise<void> {
    const tracked = work.catch(this.#onError).finally(() => this.#pending.delete(tracked))
    this.#pending.add(tracked)
    return tracked
  }
}

/**
 * Returns which updates were made, as far as the refs tell. git moves a ref only from its old
 * value. So a ref that still has its old value was not moved, and one that has neither value was
 * moved by another push, before or after this one.
 *
 * @param repository null if it is gone
 * @param before the refs before git started, if they are known
 */
async function compareRefs(
  repository: RepositoryFiles | null,
  commands: readonly RefUpdate[],
  before?: RefIds,
): Promise<PushOutcome> {
  const moves = commands.filter(isMove)
  const refs = repository && (await readOwnRefs(repository, moves))
  if (refs === null) return { updates: [], unknown: moves }
  const isAt = (ref: string, id: string) => (NO_OBJECT.test(id) ? !refs.has(ref) : refs.get(ref) === id)
  const isKept = ({ ref, old }: RefUpdate) => isAt(ref, old) || (before && before.get(ref) === refs.get(ref))
  const [updates, unknown]: [RefUpdate[], RefUpdate[]] = [[], []]
  for (const move of moves) if (!isKept(move)) (isAt(move.ref, move.new) ? updates : unknown).push(move)
  return { updates, unknown }
}

/** Returns null if the refs cannot be read now. */
async function readOwnRefs(repository: RepositoryFiles, moves: readonly RefUpdate[]): Promise<RefIds | null> {
  const timeout = AbortSignal.timeout(TIMEOUT)
  try {
    const opened = await openRepository(repository)
    // A power cut must not undo what the event says.
    await syncFolders(opened.path)
    return await readRefIds(opened, moves, timeout)
  } catch (error) {
    if (timeout.aborted || error instanceof RepositoryUnavailable || error instanceof GitFailed) return null
    throw error
  }
}

function isMove(command: RefUpdate): boolean {
  return command.old !== command.new
}

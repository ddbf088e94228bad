import { ServiceError } from '../../errors.ts'
import { GitFailed, RepositoryUnavailable } from '../../git/errors.ts'
import { removeInterrupted } from '../../git/leftovers.ts'
import { openRepository, type RepositoryFiles } from '../../git/opened-repository.ts'
import { type RefIds, readRefIds } from '../../git/refs/list-refs.ts'
import type { Pusher, RefUpdate } from '../../store/audit/audit.ts'
import type { OpenPush, PushOutcome } from '../../store/repositories/pushes.ts'
import type { Store } from '../../store/store.ts'
import { persist } from '../../util/persist.ts'
import { NO_OBJECT, refsOf } from './commands.ts'
import { syncFolders } from './folder-sync.ts'
import type { Presence, ServerState } from './presence.ts'

/** A push on which git may work. */
interface BegunPush {
  /** What git inherits: see `Presence`. */
  descriptor: number | null
  /**
   * Records what became of it. Call it when git has ended.
   *
   * @param updated the updates that git reported; null: the refs are compared
   */
  settle(updated: readonly RefUpdate[] | null): Promise<void>
}

/** Milliseconds between two searches for pushes whose end was not recorded. */
const INTERVAL = 10_000
/**
 * Milliseconds after which git is stopped while refs are compared: other events wait for it, and so
 * does a server that stops.
 */
const TIMEOUT = 30_000

/** Records pushes: see `pushStore`. */
export class PushRecorder {
  readonly #pushes: Store['pushes']
  readonly #overdue: number
  readonly #onError: (error: unknown) => void
  readonly #presence: Presence | null
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
   * @param presence null: only overdue pushes of others are settled
   */
  constructor(
    pushes: Store['pushes'],
    overdue: number,
    onError: (error: unknown) => void,
    presence: Presence | null = null,
  ) {
    this.#pushes = pushes
    this.#overdue = overdue
    this.#onError = onError
    this.#presence = presence
    this.#settleRegularly()
  }

  /**
   * Stores a push before git starts.
   *
   * @param before the refs that it names
   */
  async begin(
    pusher: Pusher,
    repository: RepositoryFiles,
    commands: readonly RefUpdate[],
    before: RefIds,
  ): Promise<BegunPush> {
    const own = await this.#presence?.own()
    const id = await this.#pushes.begin(pusher, commands, own?.server)
    this.#active.add(id)
    const { promise: ended, resolve } = Promise.withResolvers<readonly RefUpdate[] | null>()
    const settle = async (updated: readonly RefUpdate[] | null) => {
      const outcome: PushOutcome = updated
        ? { updates: updated.filter(isMove) }
        : {
            ...((await compareRefs(repository, commands, before)) ?? nothingKnown(commands)),
            unreported: true,
          }
      await persist(() => this.#pushes.settle(id, pusher, outcome))
    }
    // From now on, so that a server that stops waits for git too.
    const settled = this.#track(ended.then(settle).finally(() => this.#active.delete(id)))
    return {
      descriptor: own?.git.fd ?? null,
      settle: (updated) => {
        resolve(updated)
        return settled
      },
    }
  }

  /**
   * Settles pushes to a repository whose server was killed, while its refs are still as git left
   * them.
   *
   * @throws ServiceError while git still works on one
   */
  async settleKilled(repositoryId: number): Promise<void> {
    if (!this.#presence) return
    for (const push of await this.#pushes.listOpen(this.#overdue, repositoryId)) {
      if ((await this.#settleEnded(push)) !== 'git runs') continue
      const cause = new Error('git of a server that was killed still works on a push to the repository')
      throw new ServiceError('unavailable', undefined, { cause })
    }
  }

  /**
   * Resolves when git has ended on all pushes of this process, and everything is settled that can
   * be now. Another instance, or the next start, settles what takes too long.
   */
  async close(): Promise<void> {
    this.#end = AbortSignal.timeout(TIMEOUT)
    clearTimeout(this.#timer)
    await Promise.all(this.#pending)
  }

  /** One search after the other: a repository may not answer. */
  async #settleRegularly(): Promise<void> {
    await this.#track(this.#settleOthers())
    if (!this.#end) this.#timer = setTimeout(() => this.#settleRegularly(), INTERVAL).unref()
  }

  async #settleOthers(): Promise<void> {
    const open = await this.#pushes.listOpen(this.#overdue)
    for (const push of open) {
      await this.#settleEnded(push)
      if (this.#end?.aborted) return
    }
    if (open.length === 0) await this.#presence?.removeEnded()
  }

  /** Settles a push of another server if that and git have ended, or if it is overdue. */
  async #settleEnded(push: OpenPush): Promise<ServerState> {
    const { id, pusher, repository, commands, server, isOverdue } = push
    if (this.#active.has(id)) return 'running'
    const now = Date.now()
    const state = (await this.#presence?.stateOf(server)) ?? 'unknown'
    if (state !== 'ended' && !isOverdue) return state
    const outcome = await compareRefs(repository, commands)
    // If the refs cannot be read now, they may be later.
    if (outcome === null && !isOverdue) return state
    const isSettled = await this.#pushes.settle(id, pusher, {
      ...(outcome ?? nothingKnown(commands)),
      interrupted: true,
    })
    // Nobody else has created what is older, unless another push was open.
    if (
      state === 'ended' &&
      isSettled &&
      repository?.managed &&
      !(await this.#pushes.hasOpen(pusher.repositoryId))
    )
      await removeInterrupted(repository.path, new Set(commands.map(({ ref }) => ref)), now)
    return 'ended'
  }

  /** Never rejects: the refs have moved, so it is too late to refuse the push. */
  #track(work: Promise<void>): Promise<void> {
    const tracked = work.catch(this.#onError).finally(() => this.#pending.delete(tracked))
    this.#pending.add(tracked)
    return tracked
  }
}

/** Returns what is known of a push whose refs cannot be read. */
function nothingKnown(commands: readonly RefUpdate[]): PushOutcome {
  return { updates: [], unknown: commands.filter(isMove) }
}

/**
 * Returns which updates were made, as far as the refs tell. git moves a ref only from its old
 * value. So a ref that still has its old value was not moved, and one that has neither value was
 * moved by another push, before or after this one. Returns null if they cannot be read.
 *
 * @param repository null if it is gone
 * @param before the refs before git started, if they are known
 */
async function compareRefs(
  repository: RepositoryFiles | null,
  commands: readonly RefUpdate[],
  before?: RefIds,
): Promise<PushOutcome | null> {
  const moves = commands.filter(isMove)
  if (repository === null) return nothingKnown(commands)
  const refs = await readOwnRefs(repository, moves)
  if (refs === null) return null
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
    return await readRefIds(opened, refsOf(moves), { signal: timeout })
  } catch (error) {
    if (timeout.aborted || error instanceof RepositoryUnavailable || error instanceof GitFailed) return null
    throw error
  }
}

function isMove(command: RefUpdate): boolean {
  return command.old !== command.new
}

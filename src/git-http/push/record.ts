import { setTimeout as delay } from 'node:timers/promises'
import type { RefUpdate } from '../../domain/ref-updates.ts'
import { ServiceError } from '../../errors.ts'
import { removeInterrupted } from '../../git/leftovers.ts'
import { openRepository } from '../../git/opened-repository.ts'
import type { OpenPush } from '../../store/repositories/pushes.ts'
import type { Store } from '../../store/store.ts'
import { refsOf } from './commands.ts'
import type { SyncFolders } from './folder-sync.ts'
import { followPush } from './follow-head.ts'
import { COMPARE_TIMEOUT, compareRefs, nothingKnown, uncheckedRules } from './outcome.ts'
import type { Presence, ServerState } from './presence.ts'

export interface PushRecorderOptions {
  pushes: Pick<Store['pushes'], 'listOpen' | 'hasOpen' | 'settle'>
  rules: Pick<Store['rules'], 'load'>
  /**
   * Milliseconds after which git has ended, also one of another process that was killed.
   */
  overdue: number
  /** null: only overdue pushes of others are settled. */
  presence: Presence | null
  syncFolders: SyncFolders
  /** Receives the error of a push that could not be settled, or not as a whole. */
  onError(error: unknown): void
}

/** Milliseconds that a push waits for the one on which it builds, and between two polls. */
const MAX_WAIT = 5_000
const POLL_INTERVAL = 250
/** Milliseconds between two searches for pushes whose end was not recorded. */
const SEARCH_INTERVAL = 10_000

/**
 * Tracks which stored pushes this process settles itself (see `Push`), and settles the others: those
 * whose server did not see their end. See `createPushStore` for what is stored.
 *
 * ```
 *   stored ──┬─ by this process ── `Push` has it ──▶ own ── git has ended ──▶ settled by `Push`
 *            │                        │                └─ that failed ──▶ left ──┐ overdue
 *            │                        └─ nobody has it: its answer was lost,     │
 *            │                           so git was not started ─────────────────┼──▶ settled here
 *            └─ by another process, which has ended as has its git, or overdue ──┘
 * ```
 */
export class PushRecorder {
  readonly #options: PushRecorderOptions
  /** The pushes that this process will settle itself, until they are settled. */
  readonly #own = new Map<number, Promise<void>>()
  /** The pushes of this process that it could not settle: they are left until they are overdue. */
  readonly #left = new Set<number>()
  /** Number of pushes of this process that are being stored, so they may be neither of these yet. */
  #storing = 0
  /** Whether one may be stored although its answer was an error. */
  #mayBeStored = false
  /** The latest search for pushes that have ended. */
  #search = Promise.resolve()
  #timer: NodeJS.Timeout | undefined
  /** Ends the search; undefined until `close`. */
  #end: AbortSignal | undefined

  constructor(options: PushRecorderOptions) {
    this.#options = options
    this.#searchRegularly()
  }

  /**
   * Stores a push and leaves it to this process: `leave` is called before `store` resolves. What is
   * stored although `store` failed, because its answer was lost, is no push: git was not started.
   */
  async storing(store: () => Promise<void>): Promise<void> {
    this.#storing++
    try {
      await store()
    } catch (error) {
      this.#mayBeStored = true
      throw error
    } finally {
      this.#storing--
    }
  }

  /**
   * Leaves a push to this process until it has settled it. A server that stops waits for it.
   *
   * @returns resolves when it is settled, or could not be
   */
  leave(id: number, settled: Promise<void>): Promise<void> {
    const ended = settled
      .catch((error: unknown) => {
        // The refs have moved, so it is too late to refuse the push.
        this.#left.add(id)
        this.#options.onError(error)
      })
      .finally(() => this.#own.delete(id))
    this.#own.set(id, ended)
    return ended
  }

  /**
   * Settles pushes to a repository whose server was killed, while its refs are still as git left
   * them. Waits a while for pushes to which git has moved the refs of the next one: were their
   * server killed then, the refs would not tell that both were made.
   *
   * @param commands of the next push
   * @throws ServiceError while git still works on a push of a server that was killed
   */
  async settleBefore(repositoryId: number, commands: readonly RefUpdate[] = []): Promise<void> {
    const { pushes, overdue, presence } = this.#options
    if (!presence) return
    let open = await pushes.listOpen(overdue, repositoryId)
    if (open.length === 0) return
    const deadline = performance.now() + MAX_WAIT
    const olds = new Map(commands.map(({ ref, old }) => [ref, old]))
    const isBuiltOn = (push: OpenPush) => push.commands.some(({ ref, new: id }) => olds.get(ref) === id)
    for (;;) {
      const awaited: OpenPush[] = []
      for (const push of open) {
        const state = await this.#settleIfEnded(push)
        if (state === 'git runs') throw stillRuns()
        if (state !== 'ended' && isBuiltOn(push)) awaited.push(push)
      }
      if (awaited.length === 0 || performance.now() >= deadline) return
      const own = awaited.flatMap(({ id }) => this.#own.get(id) ?? [])
      await Promise.race([...own, delay(POLL_INTERVAL)])
      open = (await pushes.listOpen(overdue, repositoryId)).filter(isBuiltOn)
    }
  }

  /**
   * Resolves when git has ended on all pushes of this process, and everything is settled that can
   * be now. Another instance, or the next start, settles what takes too long.
   */
  async close(): Promise<void> {
    this.#end = AbortSignal.timeout(COMPARE_TIMEOUT)
    clearTimeout(this.#timer)
    await Promise.all([this.#search, ...this.#own.values()])
    // Once this server has ended, others would take what was stored for an interrupted push.
    if (this.#mayBeStored) await this.#settleOpen().catch(this.#options.onError)
  }

  /** One search after the other: a repository may not answer. */
  async #searchRegularly(): Promise<void> {
    this.#search = this.#settleOpen().catch(this.#options.onError)
    await this.#search
    if (!this.#end) this.#timer = setTimeout(() => this.#searchRegularly(), SEARCH_INTERVAL).unref()
  }

  async #settleOpen(): Promise<void> {
    const { pushes, overdue, presence } = this.#options
    const left = [...this.#left]
    const open = await pushes.listOpen(overdue)
    const [ids, newest] = [new Set(open.map(({ id }) => id)), open.at(-1)?.id ?? Number.POSITIVE_INFINITY]
    // They have been settled since then, here or by another instance. The list may be cut after the newest.
    for (const id of left) if (id <= newest && !ids.has(id)) this.#left.delete(id)
    // A process is started to find out the state of each server.
    const states = new Map<string | null, Promise<ServerState>>()
    const stateOf = (server: string | null) => {
      const state = states.get(server) ?? this.#stateOf(server)
      states.set(server, state)
      return state
    }
    for (const push of open) {
      // Others do not wait for a push that cannot be settled.
      await this.#settleIfEnded(push, stateOf).catch(this.#options.onError)
      if (this.#end?.aborted) return
    }
    if (open.length === 0) await presence?.removeEnded()
  }

  /**
   * Settles a push if this process does not do so itself, and its server and git have ended or it is
   * overdue. Returns `ended` for a push that is settled, else the state of its server.
   */
  async #settleIfEnded(
    push: OpenPush,
    stateOf = (server: string | null) => this.#stateOf(server),
  ): Promise<ServerState> {
    const { pushes, presence } = this.#options
    // Asked first: meanwhile the push may be left to this process.
    const isOfThis = (await presence?.isOwn(push.server)) === true
    if (this.#own.has(push.id)) return 'running'
    if (isOfThis && this.#storing === 0 && !this.#left.has(push.id)) {
      // git was not started.
      await pushes.settle(push.id, push.pusher, { updates: [] })
      return 'ended'
    }
    const now = Date.now()
    const state = await stateOf(push.server)
    if (state !== 'ended' && !push.isOverdue) return state
    return (await this.#settleInterrupted(push, state, now)) ? 'ended' : state
  }

  /**
   * Settles a push by what its refs tell. Returns false if its repository fails now, but may not
   * later: an overdue push is settled without what fails.
   *
   * @param since when the server had that state, in milliseconds since the epoch, or before
   */
  async #settleInterrupted(push: OpenPush, state: ServerState, since: number): Promise<boolean> {
    const { pushes, rules, syncFolders, onError } = this.#options
    const { id, pusher, repository, commands, head, isGated, isOverdue } = push
    const outcome = await compareRefs(syncFolders, repository, commands)
    if (outcome === null && !isOverdue) return false
    let hasFailed = false
    const report = (error: unknown) => {
      hasFailed = true
      onError(error)
      return null
    }
    // Nobody else has created what is older, unless another push is open.
    if (state === 'ended' && repository?.managed && !(await pushes.hasOpen(pusher.repositoryId, id)))
      await removeInterrupted(repository.path, new Set(refsOf(commands)), since).catch(report)
    const files = outcome && repository
    const follow = async () => files && followPush(await openRepository(files), commands, head, true)
    const move = await follow().catch(report)
    if (hasFailed && !isOverdue) return false

    const unchecked =
      files && isGated === false
        ? await uncheckedRules(rules, { ...files, id: pusher.repositoryId }, outcome.updates)
        : []
    await pushes.settle(id, pusher, {
      ...(outcome ?? nothingKnown(commands)),
      head: move,
      ...(unchecked.length > 0 && { unchecked }),
      interrupted: true,
    })
    return true
  }

  async #stateOf(server: string | null): Promise<ServerState> {
    return (await this.#options.presence?.stateOf(server)) ?? 'unknown'
  }
}

function stillRuns(): ServiceError {
  const cause = new Error('git of a server that was killed still works on a push to the repository')
  return new ServiceError('unavailable', undefined, { cause })
}

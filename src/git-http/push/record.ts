import { setTimeout as delay } from 'node:timers/promises'
import type { RefUpdate } from '../../domain/ref-updates.ts'
import { ServiceError } from '../../errors.ts'
import { removeInterrupted } from '../../git/leftovers.ts'
import { openRepository, type RepositoryFiles } from '../../git/opened-repository.ts'
import type { PushOutcome } from '../../store/repositories/push-events.ts'
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
  /**
   * Receives the error of a push that could not be settled. It is tried again once the push is
   * overdue.
   */
  onError(error: unknown): void
}

/** Milliseconds that a push waits for the one on which it builds, and after which it looks again. */
const MAX_WAIT = 5_000
const LOOK_AGAIN = 250
/** Milliseconds between two searches for pushes whose end was not recorded. */
const INTERVAL = 10_000

/**
 * Settles pushes of servers that did not see their end: see `createPushStore`. A server settles its own
 * pushes: see `Push`.
 */
export class PushRecorder {
  readonly #options: PushRecorderOptions
  /** The pushes of this process that it will settle itself, until they are settled. */
  readonly #own = new Map<number, Promise<void>>()
  /** Pushes of this process that it could not settle: they are left until they are overdue. */
  readonly #unsettled = new Set<number>()
  /** Pushes that are being stored. */
  #opening = 0
  /** Whether one could not be, as far as its answer tells. */
  #mayBeStored = false
  readonly #pending = new Set<Promise<void>>()
  #timer: NodeJS.Timeout | undefined
  /** Ends the search; undefined until `close`. */
  #end: AbortSignal | undefined

  constructor(options: PushRecorderOptions) {
    this.#options = options
    this.#settleRegularly()
  }

  /**
   * Stores a push and leaves it to this process: `leave` is called before `open` resolves. What is
   * stored although `open` failed, because its answer was lost, is no push: git was not started.
   */
  async opening(open: () => Promise<void>): Promise<void> {
    this.#opening++
    try {
      await open()
    } catch (error) {
      this.#mayBeStored = true
      throw error
    } finally {
      this.#opening--
    }
  }

  /**
   * Leaves a push to this process until it has settled it. A server that stops waits for it.
   *
   * @returns resolves when it is settled, or could not be
   */
  leave(id: number, settled: Promise<void>): Promise<void> {
    const ended = settled.catch((error: unknown) => {
      this.#unsettled.add(id)
      throw error
    })
    const tracked = this.#track(ended.finally(() => this.#own.delete(id)))
    this.#own.set(id, tracked)
    return tracked
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
    const deadline = performance.now() + MAX_WAIT
    const olds = new Map(commands.map(({ ref, old }) => [ref, old]))
    const isBuiltOn = (push: OpenPush) => push.commands.some(({ ref, new: id }) => olds.get(ref) === id)
    for (let open = await pushes.listOpen(overdue, repositoryId); ; ) {
      const awaited: OpenPush[] = []
      for (const push of open) {
        const state = await this.#settleEnded(push)
        if (state === 'git runs') {
          const cause = new Error('git of a server that was killed still works on a push to the repository')
          throw new ServiceError('unavailable', undefined, { cause })
        }
        if (state !== 'ended' && isBuiltOn(push)) awaited.push(push)
      }
      if (awaited.length === 0 || performance.now() >= deadline) return
      const own = awaited.flatMap(({ id }) => this.#own.get(id) ?? [])
      await Promise.race([...own, delay(LOOK_AGAIN)])
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
    await Promise.all(this.#pending)
    // Once this server has ended, others would take what was stored for an interrupted push.
    if (this.#mayBeStored) await this.#track(this.#settleOwn())
  }

  /** One search after the other: a repository may not answer. */
  async #settleRegularly(): Promise<void> {
    await this.#track(this.#settleOthers())
    if (!this.#end) this.#timer = setTimeout(() => this.#settleRegularly(), INTERVAL).unref()
  }

  async #settleOwn(): Promise<void> {
    const { pushes, overdue, presence } = this.#options
    for (const push of await pushes.listOpen(overdue))
      if (await presence?.isOwn(push.server)) await this.#settleEnded(push)
  }

  async #settleOthers(): Promise<void> {
    const { pushes, overdue, presence } = this.#options
    const open = await pushes.listOpen(overdue)
    // Each state is found out once, by a process.
    const states = new Map<string | null, Promise<ServerState>>()
    const stateOf = (server: string | null) => {
      const state = states.get(server) ?? this.#stateOf(server)
      states.set(server, state)
      return state
    }
    for (const push of open) {
      await this.#settleEnded(push, stateOf)
      if (this.#end?.aborted) return
    }
    if (open.length === 0) await presence?.removeEnded()
  }

  /** Settles a push of another server if that and git have ended, or if it is overdue. */
  async #settleEnded(
    push: OpenPush,
    stateOf = (server: string | null) => this.#stateOf(server),
  ): Promise<ServerState> {
    const { pushes, presence, syncFolders } = this.#options
    const { id, pusher, repository, commands, server, isOverdue } = push
    const isOfThis = (await presence?.isOwn(server)) === true
    if (this.#own.has(id)) return 'running'
    if (isOfThis && this.#opening === 0 && !this.#unsettled.has(id)) {
      await pushes.settle(id, pusher, { updates: [] })
      return 'ended'
    }
    const now = Date.now()
    const state = await stateOf(server)
    if (state !== 'ended' && !isOverdue) return state
    const outcome = await compareRefs(syncFolders, repository, commands)
    // If the refs cannot be read now, they may be later.
    if (outcome === null && !isOverdue) return state
    // Nobody else has created what is older, unless another push is open.
    if (state === 'ended' && repository?.managed && !(await pushes.hasOpen(pusher.repositoryId, id)))
      await removeInterrupted(repository.path, new Set(refsOf(commands)), now)
    await pushes.settle(id, pusher, {
      ...(outcome ?? nothingKnown(commands)),
      ...(outcome && repository && (await this.#complete(push, repository, outcome))),
      interrupted: true,
    })
    return 'ended'
  }

  /** Does and finds out what is left to a push when its server did not see its end. */
  async #complete(
    { commands, pusher, head, isGated }: OpenPush,
    repository: RepositoryFiles,
    { updates }: PushOutcome,
  ): Promise<Pick<PushOutcome, 'head' | 'unchecked'>> {
    const files = { ...repository, id: pusher.repositoryId }
    const unchecked = isGated === false ? await uncheckedRules(this.#options.rules, files, updates) : []
    return {
      head: head === null ? null : await followPush(await openRepository(repository), commands, head),
      ...(unchecked.length > 0 && { unchecked }),
    }
  }

  async #stateOf(server: string | null): Promise<ServerState> {
    return (await this.#options.presence?.stateOf(server)) ?? 'unknown'
  }

  /** Never rejects: the refs have moved, so it is too late to refuse the push. */
  #track(work: Promise<void>): Promise<void> {
    const tracked = work.catch(this.#options.onError).finally(() => this.#pending.delete(tracked))
    this.#pending.add(tracked)
    return tracked
  }
}

import { rulesFor } from '../../domain/branch-rules.ts'
import { followFirstBranch } from '../../git/history/default-branch.ts'
import type { RepositoryAccess } from '../../store/access/access.ts'
import type { Pusher, RefUpdate } from '../../store/audit/audit.ts'
import type { Store } from '../../store/store.ts'
import { readCommands } from './commands.ts'
import { syncFolders } from './folder-sync.ts'
import { PushGate } from './gate.ts'
import type { PushRecorder, SettlePush } from './record.ts'
import { type RefIds, readRefIds } from './ref-graph.ts'
import { PushReport, reportRefusal } from './report.ts'

/** What pushes need of the server. */
export interface PushServices {
  store: Pick<Store, 'rules' | 'statuses'>
  recorder: PushRecorder
  /** Receives the error for which a push was refused. */
  onError(error: unknown): void
}

/** Maximum number of refs of one push. */
export const MAX_REFS = 10_000
const NO_OBJECT = /^0+$/

/**
 * One push, from its commands to its record:
 *
 * ```
 *   begin ── commands read ── rules loaded ── stored ──▶ git runs ── gate (only with rules) ──▶ git updates refs
 *     │                                                                                             │
 *     └──▶ refused before git runs                            end: settled ◀── sync ◀── git's report┘
 * ```
 */
export class Push {
  /** Decides which refs git updates; null: git updates all. */
  gate: PushGate | null = null
  report = new PushReport([])
  readonly #services: PushServices
  readonly #pusher: Pusher
  readonly #repository: RepositoryAccess
  #settle: SettlePush | null = null
  #synced: Promise<void> | null = null

  constructor(services: PushServices, pusher: Pusher, repository: RepositoryAccess) {
    this.#services = services
    this.#pusher = pusher
    this.#repository = repository
  }

  /**
   * Prepares the push, and records that git may work on it from now on.
   *
   * @param peek see `readCommands`
   * @returns an answer that refuses the push; null: git may start, and `end` must be called
   * @throws ServiceError, StoreUnavailable, RepositoryUnavailable, the errors of git, the reason of `signal`
   */
  async begin(peek: (offset: number) => Promise<Buffer>, signal: AbortSignal): Promise<Buffer | null> {
    const { store, recorder, onError } = this.#services
    const { path } = this.#repository
    const request = await readCommands(peek)
    const { commands } = request
    const before = await readRefIds(path, commands, signal)
    const rules = await store.rules.load(this.#pusher.repositoryId)
    if (rules.length > 0) this.gate = new PushGate(store, this.#pusher, path, rules, onError)
    const reason = findReason(commands, before) ?? (await this.gate?.limit(commands, signal)) ?? null
    if (reason !== null) return reportRefusal(request, reason)
    this.report = new PushReport(commands)
    signal.throwIfAborted()
    if (commands.length > 0)
      this.#settle = await recorder.begin(this.#pusher, this.#repository, commands, before)
    return null
  }

  /** Waits until what git has updated is on disk. Called before git's report is sent. @throws RepositoryUnavailable */
  sync(): Promise<void> {
    this.#synced ??= this.#syncOnce()
    return this.#synced
  }

  async #syncOnce(): Promise<void> {
    const { path, managed } = this.#repository
    const mayMove = (branch: string) => rulesFor(this.gate?.rules ?? [], branch).length === 0
    // HEAD of an imported repository belongs to its owner.
    if (managed) await followFirstBranch(path, mayMove)
    await syncFolders(path)
  }

  /** Records what the push updated. Call it when git has ended, or could not be started. Never rejects. */
  async end(): Promise<void> {
    // git did not run, or had nothing to update.
    if (!this.#settle) return
    // A power cut must not undo what the event says. Who sends the report learns why this fails.
    await this.sync().catch(() => {})
    await this.#settle(this.report.updated)
  }
}

/** Returns why no ref of a push may be updated; null if git may decide. @param refs before it */
function findReason(commands: readonly RefUpdate[], refs: RefIds): string | null {
  if (commands.length > MAX_REFS)
    return `${commands.length} refs in one push; at most ${MAX_REFS} are allowed`
  // No client does this, and neither git's report nor the refs would tell these updates apart.
  if (new Set(commands.map(({ ref }) => ref)).size < commands.length) return 'a ref was pushed more than once'
  // If git does not know the old object, it deletes the ref whatever its value is. If it does, it compares the value itself.
  const wrong = commands.find(({ ref, old, new: id }) => NO_OBJECT.test(id) && refs.get(ref) !== old)
  return wrong === undefined ? null : `${wrong.ref} has changed; fetch and push again`
}

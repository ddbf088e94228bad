import { followFirstBranch } from '../../git/history/default-branch.ts'
import type { RepositoryAccess } from '../../store/access.ts'
import type { Pusher, RefUpdate } from '../../store/audit.ts'
import { type AppliedRule, rulesFor } from '../../store/rules.ts'
import type { Store } from '../../store/store.ts'
import { readCommands } from './commands.ts'
import { syncFolders } from './folder-sync.ts'
import { PushGate } from './gate.ts'
import { openHooksFolder } from './hooks-folder.ts'
import type { PushedRefs } from './proc-receive.ts'
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
 *   begin ── commands read ── rules loaded ── stored ──▶ git runs ── decide (only with rules) ──▶ git updates refs
 *     │                                                                                               │
 *     └──▶ refused before git runs                        end: settled ◀── sync ◀── read: git's report┘
 * ```
 */
export class Push {
  /** A folder for `core.hooksPath`, with the hook by which `decide` is called; null: git updates all refs. */
  hooks: string | null = null
  readonly #services: PushServices
  readonly #pusher: Pusher
  readonly #repository: RepositoryAccess
  #rules: readonly AppliedRule[] = []
  #report = new PushReport([])
  #settle: SettlePush | null = null

  constructor(services: PushServices, pusher: Pusher, repository: RepositoryAccess) {
    this.#services = services
    this.#pusher = pusher
    this.#repository = repository
  }

  /**
   * Prepares the push, and records that git may work on it from now on.
   *
   * @param peek see `readCommands`
   * @param signal aborts when the client has disconnected
   * @returns an answer that refuses the push; null: git may start, and `end` must be called
   * @throws ServiceError, StoreUnavailable, RepositoryUnavailable, the errors of git, the reason of `signal`
   */
  async begin(peek: (offset: number) => Promise<Buffer>, signal: AbortSignal): Promise<Buffer | null> {
    const { store, recorder } = this.#services
    const { path } = this.#repository
    const request = await readCommands(peek)
    const { commands } = request
    const before = commands.length === 0 ? new Map() : await readRefIds(path, commands, signal)
    this.#rules = await store.rules.load(this.#pusher.repositoryId)
    const reason = findReason(commands, before) ?? (await this.#gate().limit(commands, signal))
    if (reason !== null) return reportRefusal(request, reason)
    if (this.#rules.length > 0) this.hooks = await openHooksFolder()
    this.#report = new PushReport(commands)
    signal.throwIfAborted()
    if (commands.length > 0)
      this.#settle = await recorder.begin(this.#pusher, this.#repository, commands, before)
    return null
  }

  /** Decides which refs git does not update. Returns a reason for each of them. */
  decide(pushed: PushedRefs): Promise<Map<string, string>> {
    return this.#gate().decide(pushed, this.#services.onError)
  }

  /** Takes the next bytes of the body of git's answer. */
  read(chunk: Buffer): void {
    this.#report.read(chunk)
  }

  /** Waits until what git has updated is on disk. Called before git's report is sent. @throws RepositoryUnavailable */
  async sync(): Promise<void> {
    const { path, managed } = this.#repository
    // HEAD of an imported repository belongs to its owner.
    if (managed) await followFirstBranch(path, (branch) => rulesFor(this.#rules, branch).length === 0)
    await syncFolders(path)
  }

  /** Records what the push updated. Call it when git has ended, or could not be started. Never rejects. */
  async end(): Promise<void> {
    const settle = this.#settle
    this.#settle = null
    await settle?.(this.#report.updated)
  }

  #gate(): PushGate {
    return new PushGate(this.#services.store, this.#pusher, this.#repository.path, this.#rules)
  }
}

/** Returns why no ref of a push may be updated; null if git may decide. @param refs before it */
function findReason(commands: readonly RefUpdate[], refs: RefIds): string | null {
  if (commands.length > MAX_REFS)
    return `${commands.length} refs in one push; at most ${MAX_REFS} are allowed`
  // No client does this, and neither git's report nor the refs would tell these updates apart.
  if (new Set(commands.map(({ ref }) => ref)).size < commands.length) return 'a ref was pushed more than once'
  // If git does not know the old object, it deletes the ref whatever its value is. If it does, it compares the value itself.
  const wrong = commands.find((command) => isDeletion(command) && refs.get(command.ref) !== command.old)
  return wrong === undefined ? null : `${wrong.ref} has changed; fetch and push again`
}

function isDeletion(command: RefUpdate): boolean {
  return NO_OBJECT.test(command.new)
}

import type { Pusher } from '../../domain/actors.ts'
import { commitIdLength, NO_OBJECT } from '../../domain/commit-id.ts'
import { BRANCHES } from '../../domain/ref-names.ts'
import { type RefRule, rulesOfRef } from '../../domain/ref-rules.ts'
import { isMove, type RefRefusal, type RefUpdate, type RefusedRef } from '../../domain/ref-updates.ts'
import type { OpenedRepository } from '../../git/opened-repository.ts'
import { followFirstBranch } from '../../git/refs/default-branch.ts'
import { type RefIds, readRefIds } from '../../git/refs/ref-ids.ts'
import { decodeLatin1 } from '../../git/run-git.ts'
import type { Turns } from '../../schedule/turns.ts'
import type { ReadableRepository } from '../../store/access/readable-repositories.ts'
import type { PushOutcome } from '../../store/repositories/push-events.ts'
import type { Store } from '../../store/store.ts'
import { persist } from '../../util/persist.ts'
import { type PushRequest, refsOf } from './commands.ts'
import type { SyncFolders } from './folder-sync.ts'
import { findAliasesOfHead, followPush, type HeadPlan, planHead } from './follow-head.ts'
import { decide } from './gate.ts'
import { compareRefs, isAt, nothingKnown, uncheckedRules } from './outcome.ts'
import type { Presence } from './presence.ts'
import type { PushedRefs } from './proc-receive.ts'
import type { PushRecorder } from './record.ts'
import { kindOfGit, PushReport, progress } from './report.ts'

export interface PushOptions {
  store: Pick<Store, 'rules' | 'reportedContexts' | 'pushes'>
  recorder: PushRecorder
  /** null: this server leaves nothing that tells whether its git has ended. */
  presence: Presence | null
  syncFolders: SyncFolders
  /** Receives the error for which a push was refused. */
  onError(error: unknown): void
  pusher: Pusher
  repository: ReadableRepository
  /** The page of the repository. */
  repositoryUrl: string
  /** It has commands. */
  request: PushRequest
  /** Throws if the user may not push any more. */
  authorizeAgain(): Promise<void>
  /** Those of the users whose pushes are decided. */
  turns: Turns
}

/** Maximum number of refs of one push. */
export const MAX_REFS = 10_000

type State = 'received' | 'beginning' | 'refused' | 'open' | 'deciding' | 'ended' | 'settled'

/** The transitions of a push. */
const NEXT: Record<State, readonly State[]> = {
  received: ['beginning'],
  beginning: ['refused', 'open'],
  refused: [],
  open: ['deciding', 'ended'],
  deciding: ['open', 'ended'],
  ended: ['settled'],
  settled: [],
}

/**
 * A push, from its commands to its event.
 *
 * ```
 *   received ──▶ beginning ── stored ──▶ open ──────── git has ended ────────▶ ended ──▶ settled
 *                    │                   │  ▲          or never started        ▲    its event replaces
 *                    │ git must not      │  │ a reason for each              │    what was stored
 *                    │ decide   the hook │  │ refused ref                    │
 *                    ▼              asks ▼  │                                │
 *                 refused             deciding ──────────────────────────────┘
 * ```
 *
 * Nothing is stored until it is open. From then on no end of a process loses what git updates: what
 * is stored is settled by this object, or by `PushRecorder` if the server is killed.
 *
 * A client may claim any old value of a ref. A command from a value that the ref does not have is not
 * stored, so nobody believes it, and is refused when git asks: git does not make it even if the ref
 * has that value by then. So is the deletion of HEAD's branch by another name.
 *
 * Only pushes with such commands, and those to repositories with rules, are decided. The first rule of
 * a repository may be set while git works: it does not decide about that push, whose event says so, as
 * does who sets the rule.
 */
export class Push {
  readonly report: PushReport
  /** What git's report is preceded by. */
  advice: Buffer = Buffer.alloc(0)
  /** What git inherits: see `Presence`. null where there is none, and before the push is open. */
  descriptor: number | null = null
  /** Whether git asks which refs it may update. */
  isGated = false
  readonly #options: PushOptions
  /** The commands that git may carry out, and why it refuses the others; empty before the push is open. */
  #commands: readonly RefUpdate[] = []
  #impossible: ReadonlyMap<string, RefRefusal> = new Map()
  /** The rules when the push was stored; null before that. */
  #rules: readonly RefRule[] | null = null
  /** What was refused when git asked. */
  #refusals: ReadonlyMap<string, RefRefusal> = new Map()
  #head: HeadPlan = { leaves: null, advice: [] }
  /** How HEAD has moved. */
  #headMove: Awaited<ReturnType<typeof followPush>> = null
  #state: State = 'received'
  #opened: OpenedRepository | null = null
  #synced: Promise<void> | undefined
  /** Resolves with the updates that git reported; null if it did not report all. */
  readonly #ended = Promise.withResolvers<readonly RefUpdate[] | null>()
  #settled: Promise<void> | undefined

  constructor(options: PushOptions) {
    this.#options = options
    this.report = new PushReport(options.request.commands)
  }

  /** Whether git may delete the branch that HEAD names. */
  get mayDeleteHead(): boolean {
    return this.#head.leaves !== null
  }

  /** The refs that git has reported as refused so far. */
  get refused(): RefusedRef[] {
    return this.report.refused.map(({ ref, reason: said }) => {
      const reason = decodeLatin1(said)
      return { ref, ...(this.#refusals.get(ref) ?? { reason, kind: kindOfGit(reason) }) }
    })
  }

  /**
   * Records that git may work on the push from now on, unless git must not decide about it. `end`
   * must be called then.
   *
   * @returns why the push was refused; null if it is open
   */
  async begin(opened: OpenedRepository, signal: AbortSignal): Promise<RefRefusal | null> {
    this.#enter('beginning')
    const { store, recorder, presence, pusher, repository, request } = this.#options
    const { commands } = request
    await recorder.settleBefore(pusher.repositoryId, commands)
    const before = await readRefIds(opened, refsOf(commands), { signal })
    const refusal = findRefusal(commands, before, commitIdLength(repository.objectFormat))
    if (refusal !== null) {
      this.#enter('refused')
      return refusal
    }

    const aliases = await findAliasesOfHead(opened, commands, { signal })
    const impossible = new Map([...findChanged(commands, before), ...aliases])
    const possible = commands.filter(({ ref }) => !impossible.has(ref))
    const { managed } = repository
    this.#head = await planHead(opened, possible, before, { name: pusher.repositoryName, managed })
    this.advice = this.#adviceOf([])
    signal.throwIfAborted()
    const own = await presence?.own()
    await recorder.storing(async () => {
      const id = await store.pushes.open(pusher, possible, {
        server: own?.server ?? null,
        head: this.#head.leaves,
      })
      this.#enter('open')
      this.#opened = opened
      this.#commands = possible
      this.#impossible = impossible
      this.descriptor = own?.git.fd ?? null
      this.#settled = recorder.leave(id, this.#settle(id, before))
    })
    // Not earlier: who sets a rule that is not among these finds the push among those under way.
    this.#rules = await store.rules.load(pusher.repositoryId)
    this.isGated = this.#rules.length > 0 || impossible.size > 0
    return null
  }

  /** Decides which refs git does not update: see `decide`. */
  async decide(pushed: PushedRefs): Promise<ReadonlyMap<string, RefRefusal>> {
    this.#enter('deciding')
    const rules = this.#rules ?? []
    const push = { ...this.#options, opened: this.#begun(), rules, impossible: this.#impossible }
    const { refusals, advice } = await decide(push, pushed)
    this.#refusals = refusals
    this.advice = this.#adviceOf(advice)
    // git may have been stopped meanwhile.
    if (this.#state === 'deciding') this.#enter('open')
    return refusals
  }

  /**
   * Waits until what git has updated is on disk. Called before git's report is sent.
   *
   * @throws RepositoryUnavailable
   */
  sync(): Promise<void> {
    this.#synced ??= (async () => {
      const opened = this.#begun()
      const { repository, syncFolders } = this.#options
      const mayMove = (branch: string) =>
        this.#rules !== null && rulesOfRef(this.#rules, `${BRANCHES}${branch}`).length === 0
      this.#headMove = await followPush(opened, this.#commands, this.#head.leaves, false)
      // HEAD of an imported repository belongs to its owner.
      if (repository.managed) this.#headMove ??= await followFirstBranch(opened, mayMove)
      await syncFolders(opened.path)
    })()
    return this.#synced
  }

  /**
   * Records what the push updated, if it is open. Call it when git has ended, or could not be
   * started. Never rejects.
   *
   * @param hasStarted whether git may have
   */
  async end(hasStarted = true): Promise<void> {
    if (this.#state !== 'open' && this.#state !== 'deciding') return
    this.#enter('ended')
    // A power cut must not undo what the event says. Who sends the report learns why this fails.
    await this.sync().catch(() => {})
    this.#ended.resolve(hasStarted ? this.report.updated : [])
    await this.#settled
    this.#enter('settled')
  }

  /** Waits until git has ended, and replaces the record of the push by its event. */
  async #settle(id: number, before: RefIds): Promise<void> {
    const { store, syncFolders, pusher, repository } = this.#options
    const updated = await this.#ended.promise
    const outcome: PushOutcome = updated
      ? { updates: updated.filter(isMove) }
      : {
          ...((await compareRefs(syncFolders, repository, this.#commands, before)) ??
            nothingKnown(this.#commands)),
          unreported: true,
        }
    await persist(async (isAgain) => {
      const unchecked = this.isGated ? [] : await uncheckedRules(store.rules, repository, outcome.updates)
      const settled = { ...outcome, head: this.#headMove, ...(unchecked.length > 0 && { unchecked }) }
      await store.pushes.settle(id, pusher, settled, isAgain)
    })
  }

  /** Returns what the report is preceded by, if the client shows it. */
  #adviceOf(lines: readonly string[]): Buffer {
    if (!this.#options.request.sideband) return Buffer.alloc(0)
    return Buffer.concat([...this.#head.advice, ...lines].map(progress))
  }

  /** @throws Error before `begin` has returned null */
  #begun(): OpenedRepository {
    if (!this.#opened) throw new Error('the push has not begun')
    return this.#opened
  }

  #enter(state: State): void {
    if (!NEXT[this.#state].includes(state))
      throw new Error(`a push that is ${this.#state} cannot be ${state}`)
    this.#state = state
  }
}

/** Returns why no ref of a push may be updated; null if git may decide. @param refs before it */
function findRefusal(commands: readonly RefUpdate[], refs: RefIds, idLength: number): RefRefusal | null {
  if (commands.length > MAX_REFS)
    return { reason: `${commands.length} refs in one push; at most ${MAX_REFS} are allowed`, kind: 'limit' }
  const named = new Set<string>()
  let changed: RefRefusal | null = null
  for (const { ref, old, new: id } of commands) {
    const other = old.length === idLength ? id : old
    if (other.length !== idLength) {
      const reason = `the push has object ids of ${other.length} hex digits; those of this repository have ${idLength}`
      return { reason, kind: 'malformed' }
    }
    named.add(ref)
    // If git does not know the old object, it deletes the ref whatever its value is. If it does, it
    // compares the value itself.
    if (NO_OBJECT.test(id) && refs.get(ref) !== old)
      changed ??= { reason: `${decodeLatin1(ref)} has changed; fetch and push again`, kind: 'changed' }
  }
  // No client does this, and neither git's report nor the refs would tell these updates apart.
  if (named.size < commands.length) return { reason: 'a ref was pushed more than once', kind: 'malformed' }
  return changed
}

/** Returns the refs that are not where their command says, with the reason not to update them. */
function findChanged(commands: readonly RefUpdate[], refs: RefIds): Map<string, RefRefusal> {
  const changed = new Map<string, RefRefusal>()
  for (const { ref, old } of commands) {
    if (isAt(refs, ref, old)) continue
    const name = ref.startsWith(BRANCHES) ? 'branch' : 'ref'
    changed.set(ref, { reason: `the ${name} has changed; fetch and push again`, kind: 'changed' })
  }
  return changed
}

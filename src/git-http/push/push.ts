import type { FileHandle } from 'node:fs/promises'
import { rulesOfRef } from '../../domain/branch-rules.ts'
import { BRANCHES } from '../../domain/ref-names.ts'
import type { OpenedRepository } from '../../git/opened-repository.ts'
import { followFirstBranch } from '../../git/refs/default-branch.ts'
import { type RefIds, readRefIds } from '../../git/refs/list-refs.ts'
import type { ReadableRepository } from '../../store/access/access.ts'
import type { Pusher, RefUpdate } from '../../store/audit/audit.ts'
import type { Store } from '../../store/store.ts'
import { NO_OBJECT, readCommands, refsOf } from './commands.ts'
import { syncFolders } from './folder-sync.ts'
import { decide, findLimit } from './gate.ts'
import type { Decide } from './proc-receive.ts'
import type { PushRecorder } from './record.ts'
import { PushReport, reportRefusal } from './report.ts'

/** What pushes need of the server. */
export interface PushServices {
  store: Pick<Store, 'rules' | 'statuses'>
  recorder: PushRecorder
  /** Receives the error for which a push was refused. */
  onError(error: unknown): void
}

/** A push on which git may work. */
export interface Push {
  /** What git inherits: see `Presence`. null where there is none. */
  descriptor: number | null
  /** Decides which refs git updates; null: git updates all. */
  decide: Decide | null
  report: PushReport
  /**
   * Waits until what git has updated is on disk. Called before git's report is sent.
   *
   * @throws RepositoryUnavailable
   */
  sync(): Promise<void>
  /**
   * Records what the push updated. Call it when git has ended, or could not be started. Never
   * rejects.
   */
  end(): Promise<void>
}

/** Maximum number of refs of one push. */
export const MAX_REFS = 10_000

/**
 * Begins a push, and records that git may work on it from now on:
 *
 * ```
 *   commands read ── rules loaded ── stored ──▶ git runs ── gate (only with rules) ──▶ git updates refs
 *     │                                                                                  │
 *     └──▶ refused before git runs                 end: settled ◀── sync ◀── git's report┘
 * ```
 *
 * @returns the push, whose `end` must be called; or an answer that refuses it
 */
export async function beginPush(
  { store, recorder, onError }: PushServices,
  pusher: Pusher,
  {
    repository,
    opened,
    authorizeAgain,
  }: { repository: ReadableRepository; opened: OpenedRepository; authorizeAgain(): Promise<void> },
  body: FileHandle,
  signal: AbortSignal,
): Promise<Push | Buffer> {
  const request = await readCommands(body)
  const { commands } = request
  await recorder.settleKilled(pusher.repositoryId)
  const before = await readRefIds(opened, refsOf(commands), { signal })
  const rules = await store.rules.load(pusher.repositoryId)
  const gated =
    rules.length > 0 ? { store, pusher, repository: opened, rules, authorizeAgain, onError } : null
  const reason = findReason(commands, before) ?? (gated && (await findLimit(gated, commands, signal)))
  if (reason !== null) return reportRefusal(request, reason)
  signal.throwIfAborted()
  // Without commands, git has nothing to update.
  const begunPush = commands.length > 0 ? await recorder.begin(pusher, repository, commands, before) : null
  const report = new PushReport(commands)
  let synced: Promise<void> | undefined

  const sync = () => {
    synced ??= (async () => {
      const mayMove = (branch: string) => rulesOfRef(rules, `${BRANCHES}${branch}`).length === 0
      // HEAD of an imported repository belongs to its owner.
      if (repository.managed) await followFirstBranch(opened, mayMove)
      await syncFolders(opened.path)
    })()
    return synced
  }

  return {
    descriptor: begunPush?.descriptor ?? null,
    decide: gated && ((pushed) => decide(gated, pushed)),
    report,
    sync,
    async end() {
      if (!begunPush) return
      // A power cut must not undo what the event says. Who sends the report learns why this fails.
      await sync().catch(() => {})
      await begunPush.settle(report.updated)
    },
  }
}

/** Returns why no ref of a push may be updated; null if git may decide. @param refs before it */
function findReason(commands: readonly RefUpdate[], refs: RefIds): string | null {
  if (commands.length > MAX_REFS)
    return `${commands.length} refs in one push; at most ${MAX_REFS} are allowed`
  // No client does this, and neither git's report nor the refs would tell these updates apart.
  if (new Set(commands.map(({ ref }) => ref)).size < commands.length) return 'a ref was pushed more than once'
  // If git does not know the old object, it deletes the ref whatever its value is. If it does, it
  // compares the value itself.
  const wrong = commands.find(({ ref, old, new: id }) => NO_OBJECT.test(id) && refs.get(ref) !== old)
  return wrong === undefined ? null : `${wrong.ref} has changed; fetch and push again`
}

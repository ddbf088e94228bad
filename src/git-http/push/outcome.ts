import { NO_OBJECT } from '../../domain/commit-id.ts'
import { refRuleMatcher } from '../../domain/ref-rules.ts'
import { isMove, type RefUpdate } from '../../domain/ref-updates.ts'
import { GitFailed, RepositoryUnavailable } from '../../git/errors.ts'
import { openRepository, type RepositoryFiles } from '../../git/opened-repository.ts'
import { type RefIds, readRefIds } from '../../git/refs/ref-ids.ts'
import { guessChangedRefs } from '../../git/refs/symbolic-refs.ts'
import type { PushOutcome } from '../../store/repositories/push-events.ts'
import type { Store } from '../../store/store.ts'
import { refsOf } from './commands.ts'
import type { SyncFolders } from './folder-sync.ts'

/**
 * Milliseconds after which git is stopped while refs are compared: other events wait for it, and so
 * does a server that stops.
 */
export const COMPARE_TIMEOUT = 30_000

/** Returns the outcome of a push whose refs cannot be read. */
export function nothingKnown(commands: readonly RefUpdate[]): PushOutcome {
  return { updates: [], unknown: commands.filter(isMove) }
}

/**
 * Returns which updates were made, as far as the refs tell. git moves a ref only from its old
 * value. So a ref that still has its old value was not moved, and one that has neither value was
 * moved by another push, before or after this one. Returns null if they cannot be read.
 *
 * @param syncFolders is called before they are read: a power cut must not undo what the event says
 * @param repository null if it is gone
 * @param before the refs before git started, if they are known
 */
export async function compareRefs(
  syncFolders: SyncFolders,
  repository: RepositoryFiles | null,
  commands: readonly RefUpdate[],
  before?: RefIds,
): Promise<PushOutcome | null> {
  const moves = commands.filter(isMove)
  if (repository === null) return nothingKnown(commands)
  const refs = await readOwnRefs(syncFolders, repository, moves)
  if (refs === null) return null
  const isKept = ({ ref, old }: RefUpdate) =>
    isAt(refs, ref, old) || (before && before.get(ref) === refs.get(ref))
  const [updates, unknown]: [RefUpdate[], RefUpdate[]] = [[], []]
  for (const move of moves) if (!isKept(move)) (isAt(refs, move.ref, move.new) ? updates : unknown).push(move)
  return { updates, unknown }
}

/** Returns whether a ref has a value, which is all zeros for a ref that does not exist. */
export function isAt(refs: RefIds, ref: string, id: string): boolean {
  return NO_OBJECT.test(id) ? !refs.has(ref) : refs.get(ref) === id
}

/**
 * Returns the patterns of rules that were set too late to decide about updates: the first ones of a
 * repository, when git had started without its hook.
 *
 * @throws StoreUnavailable
 */
export async function uncheckedRules(
  rulesOfStore: Pick<Store['rules'], 'load'>,
  repository: RepositoryFiles & { id: number },
  updates: readonly RefUpdate[],
): Promise<string[]> {
  const rules = updates.length === 0 ? [] : await rulesOfStore.load(repository.id)
  if (rules.length === 0) return []
  const [rulesOf, changedRefs] = [refRuleMatcher(rules), await guessChangedRefs(repository)]
  const patterns = updates
    .flatMap(({ ref }) => changedRefs(ref))
    .flatMap(rulesOf)
    .map(({ refPattern }) => refPattern)
  return [...new Set(patterns)]
}

/** Returns null if the refs cannot be read now. */
async function readOwnRefs(
  syncFolders: SyncFolders,
  repository: RepositoryFiles,
  moves: readonly RefUpdate[],
): Promise<RefIds | null> {
  const timeout = AbortSignal.timeout(COMPARE_TIMEOUT)
  try {
    const opened = await openRepository(repository)
    await syncFolders(opened.path)
    return await readRefIds(opened, refsOf(moves), { signal: timeout })
  } catch (error) {
    if (timeout.aborted || error instanceof RepositoryUnavailable || error instanceof GitFailed) return null
    throw error
  }
}

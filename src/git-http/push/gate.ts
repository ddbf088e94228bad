import { Blocked } from '../../auth/budget.ts'
import { type BranchRule, isBypassedBy, refRuleMatcher, requiredBy } from '../../domain/branch-rules.ts'
import { BRANCHES } from '../../domain/ref-names.ts'
import { explainVerdict } from '../../domain/verdict.ts'
import { ServiceError } from '../../errors.ts'
import type { OpenedRepository } from '../../git/opened-repository.ts'
import { readSymbolicRefs } from '../../git/refs/symbolic-refs.ts'
import { decodeLatin1 } from '../../git/run-git.ts'
import type { Pusher, RefUpdate } from '../../store/audit/audit.ts'
import type { Bypass } from '../../store/repositories/rules.ts'
import type { Store } from '../../store/store.ts'
import { NO_OBJECT } from './commands.ts'
import type { PushedRefs } from './proc-receive.ts'
import { findCommits, isAncestor } from './ref-graph.ts'

/** An update of branches with rules. */
interface RuledUpdate {
  update: RefUpdate
  /** The rules of each branch that it changes. */
  branches: BranchRule[][]
}

/**
 * Maximum number of refs of a push that updates a branch with rules. git's own steps take longer
 * the more there are.
 */
export const MAX_RULED_REFS = 50
const FAILED = 'the server cannot check the rules of its branches now; push again later'
const NOT_A_COMMIT = 'not a commit'
const CHANGED = 'the branch has changed; fetch and push again'
const NO_ACCESS = 'you may not push here any more'
const DELETED = 'a branch with required checks cannot be deleted'
const FORCED = 'a branch with required checks cannot be pushed to by force'
const ATOMIC = 'the push is atomic, and another ref was refused'

/** A push to a repository with branch rules. */
interface GatedPush {
  store: Pick<Store, 'rules' | 'statuses'>
  pusher: Pusher
  repository: OpenedRepository
  /** The rules before git started. */
  rules: readonly BranchRule[]
  /** Throws if the user may not push any more. */
  authorizeAgain(): Promise<void>
  /** Receives the error for which all refs are refused. */
  onError(error: unknown): void
}

/**
 * Returns why a push has too many refs for its branches with rules, so that git need not run; null
 * if it has not.
 */
export async function findLimit(
  { repository, pusher, rules }: GatedPush,
  updates: readonly RefUpdate[],
  signal: AbortSignal,
): Promise<string | null> {
  if (updates.length <= MAX_RULED_REFS) return null
  const ruled = ruledUpdates(rules, updates, await findBranches(repository, signal))
  const { id } = pusher.by.user
  if (ruled.every(({ branches }) => branches.every((rules) => isBypassedBy(rules, id)))) return null
  return `${updates.length} refs in one push with a branch that has required checks; at most ${MAX_RULED_REFS} are allowed: push fewer at a time`
}

/**
 * Applies the branch rules to a push. A branch moves to a commit only if all checks that it
 * requires are met. It is not deleted, and moves only to descendants of its tip.
 *
 * Access, rules and reports are read after everything that takes long, so that only git's own steps
 * lie between the decision and the update of the ref. git compares the old tip again when it
 * updates the ref.
 *
 * @returns a reason for each ref that is not updated
 */
export async function decide(push: GatedPush, pushed: PushedRefs): Promise<Map<string, string>> {
  try {
    return await decideRefs(push, pushed)
  } catch (error) {
    // Others at a blocked address may have spent its budget.
    if (error instanceof ServiceError && !(error instanceof Blocked))
      return refuseAll(pushed.updates, NO_ACCESS)
    push.onError(error)
    return refuseAll(pushed.updates, FAILED)
  }
}

async function decideRefs(
  { store, pusher, repository, rules, authorizeAgain }: GatedPush,
  { updates, atomic, signal }: PushedRefs,
): Promise<Map<string, string>> {
  const branchesOf = await findBranches(repository, signal)
  /** Why an update is refused whatever has been reported; null: it depends on the reports. */
  const reasons = new Map<RefUpdate, string | null>()
  const compare = async (rules: readonly BranchRule[]) => {
    const ruled = ruledUpdates(rules, updates, branchesOf)
    const newUpdates = ruled.filter(({ update }) => !reasons.has(update))
    const ids = newUpdates.flatMap(({ update }) => [update.old, update.new])
    const commits = await findCommits(repository, ids, signal)
    for (const { update } of newUpdates)
      reasons.set(update, await compareTips(repository, update, commits, signal))
    return ruled
  }

  await compare(rules)
  await authorizeAgain()
  // A rule may have been added meanwhile. What has been compared already is not compared again.
  const ruled = await compare(await store.rules.load(pusher.repositoryId))

  const refusals = new Map<string, string>()
  const bypasses: Bypass[] = []
  for (const { update, branches } of ruled) {
    for (const rules of branches) {
      const reason =
        reasons.get(update) ??
        explainVerdict(await store.statuses.list(pusher.repositoryId, update.new), requiredBy(rules)).reason
      if (reason === null) continue
      // git refuses these too, whoever pushes them.
      if (reason !== NOT_A_COMMIT && reason !== CHANGED && isBypassedBy(rules, pusher.by.user.id))
        bypasses.push({ ...update, reason })
      else refusals.set(update.ref, reason)
    }
  }

  if (atomic && refusals.size > 0) return new Map([...refuseAll(updates, ATOMIC), ...refusals])
  const usedBypasses = bypasses.filter(({ ref }) => !refusals.has(ref))
  if (usedBypasses.length > 0) await store.rules.recordBypasses(pusher, usedBypasses)
  return refusals
}

/**
 * Compares an update with the graph of commits. Returns why it is refused, or null.
 *
 * @param commits those of the ids that are commits
 */
async function compareTips(
  repository: OpenedRepository,
  { old, new: tip }: RefUpdate,
  commits: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<string | null> {
  if (NO_OBJECT.test(tip)) return DELETED
  if (!commits.has(tip)) return NOT_A_COMMIT
  if (NO_OBJECT.test(old)) return null
  if (!commits.has(old)) return CHANGED
  return (await isAncestor(repository, old, tip, signal)) ? null : FORCED
}

/**
 * Returns a function that finds the full names of the branches that an update of a ref changes. git follows symbolic refs, so these are the branch at the end and all branches
 * that lead to it.
 */
async function findBranches(
  repository: OpenedRepository,
  signal: AbortSignal,
): Promise<(ref: string) => string[]> {
  const symbolic = await readSymbolicRefs(repository, { signal })
  const aliases = Map.groupBy(symbolic.keys(), (ref) => symbolic.get(ref))
  return (ref) => {
    const target = symbolic.get(ref) ?? ref
    return [target, ...(aliases.get(target) ?? [])]
      .filter((name) => name.startsWith(BRANCHES))
      .map(decodeLatin1)
  }
}

/** Returns the updates of branches with rules. */
function ruledUpdates(
  rules: readonly BranchRule[],
  updates: readonly RefUpdate[],
  branchesOf: (ref: string) => string[],
): RuledUpdate[] {
  const rulesOf = refRuleMatcher(rules)
  return updates.flatMap((update) => {
    const branches = branchesOf(update.ref)
      .map(rulesOf)
      .filter((branchRules) => branchRules.length > 0)
    return branches.length > 0 ? [{ update, branches }] : []
  })
}

function refuseAll(updates: readonly RefUpdate[], reason: string): Map<string, string> {
  return new Map(updates.map(({ ref }) => [ref, reason]))
}

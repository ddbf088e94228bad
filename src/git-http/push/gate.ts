import { Blocked } from '../../auth/budget.ts'
import { type BranchRule, isBypassedBy, refRuleMatcher, requiredBy } from '../../domain/branch-rules.ts'
import { BRANCHES } from '../../domain/ref-names.ts'
import { explainVerdict } from '../../domain/verdict.ts'
import { ServiceError } from '../../errors.ts'
import type { OpenedRepository } from '../../git/opened-repository.ts'
import { readSymbolicRefs } from '../../git/refs/symbolic-refs.ts'
import { decodeLatin1 } from '../../git/run-git.ts'
import type { RefUpdate } from '../../store/audit/audit.ts'
import type { Bypass } from '../../store/repositories/rules.ts'
import { NO_OBJECT } from './commands.ts'
import type { PushedRefs } from './proc-receive.ts'
import type { Push, PushOptions } from './push.ts'
import { compareTips, type Move } from './ref-graph.ts'

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
/** Why a move of a branch is refused whatever has been reported. */
const REASONS: Record<Move, string | null> = {
  created: null,
  forward: null,
  forced: FORCED,
  'not from a commit': CHANGED,
  'not to a commit': NOT_A_COMMIT,
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
export async function decide(
  push: Push,
  pushed: PushedRefs,
  { authorizeAgain, onError }: Pick<PushOptions, 'authorizeAgain' | 'onError'>,
): Promise<Map<string, string>> {
  try {
    return await decideRefs(push, pushed, authorizeAgain)
  } catch (error) {
    // Others at a blocked address may have spent its budget.
    if (error instanceof ServiceError && !(error instanceof Blocked))
      return refuseAll(pushed.updates, NO_ACCESS)
    onError(error)
    return refuseAll(pushed.updates, FAILED)
  }
}

async function decideRefs(
  { store, pusher, opened, rules: rulesBefore }: Push,
  { updates, atomic, signal }: PushedRefs,
  authorizeAgain: () => Promise<void>,
): Promise<Map<string, string>> {
  const { repositoryId, by } = pusher
  const branchesOf = await findBranches(opened, signal)
  /** Why an update is refused whatever has been reported; null: it depends on the reports. */
  const reasons = new Map<RefUpdate, string | null>()
  const compare = async (rules: readonly BranchRule[]) => {
    const ruled = ruledUpdates(rules, updates, branchesOf)
    const newUpdates = ruled.map(({ update }) => update).filter((update) => !reasons.has(update))
    const [deletions, others] = [
      newUpdates.filter(({ new: tip }) => NO_OBJECT.test(tip)),
      newUpdates.filter(({ new: tip }) => !NO_OBJECT.test(tip)),
    ]
    for (const update of deletions) reasons.set(update, DELETED)
    for (const [update, move] of await compareTips(opened, others, signal)) reasons.set(update, REASONS[move])
    return ruled
  }
  const isBypassed = ({ branches }: RuledUpdate) => branches.every((rules) => isBypassedBy(rules, by.user.id))

  if (updates.length > MAX_RULED_REFS) {
    // Not all of them are compared, which takes long.
    const ruled = ruledUpdates(rulesBefore, updates, branchesOf)
    if (!ruled.every(isBypassed)) return refuseAll(updates, tooMany(updates.length))
  }
  await compare(rulesBefore)
  await authorizeAgain()
  // A rule may have been added meanwhile. What has been compared already is not compared again.
  const ruled = await compare(await store.rules.load(repositoryId))

  const refusals = new Map<string, string>()
  const bypasses: Bypass[] = []
  for (const { update, branches } of ruled) {
    for (const rules of branches) {
      const reason =
        reasons.get(update) ??
        explainVerdict(await store.statuses.list(repositoryId, update.new), requiredBy(rules)).reason
      if (reason === null) continue
      // git refuses these too, whoever pushes them.
      if (reason !== NOT_A_COMMIT && reason !== CHANGED && isBypassedBy(rules, by.user.id))
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
 * Returns a function that finds the full names of the branches that an update of a ref changes. git
 * follows symbolic refs, so these are the branch at the end and all branches that lead to it.
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

function tooMany(count: number): string {
  return `${count} refs in one push with a branch that has required checks; at most ${MAX_RULED_REFS} are allowed: push fewer at a time`
}

function refuseAll(updates: readonly RefUpdate[], reason: string): Map<string, string> {
  return new Map(updates.map(({ ref }) => [ref, reason]))
}

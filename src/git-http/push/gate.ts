import { explainVerdict } from '../../domain/unmet-checks.ts'
import type { Pusher } from '../../store/audit.ts'
import { type AppliedRule, type Bypass, isBypassedBy, requiredBy, rulesFor } from '../../store/rules.ts'
import type { Store } from '../../store/store.ts'
import { runInSlices } from '../../util/run-in-slices.ts'
import { openHooksFolder } from './hooks-folder.ts'
import type { PushObserver } from './observer.ts'
import type { DecideRefs, PushedRefs, RefUpdate } from './proc-receive.ts'
import { isAncestor, readSymbolicRefs } from './ref-graph.ts'

/** What a push may change, and who observes it. */
export interface PushPolicy {
  /** Decides which refs a push may update. null: git updates all of them. */
  gate: PushGate | null
  /** Returns whether HEAD may leave this branch, which does not exist, for one that was pushed: see `followFirstBranch`. */
  mayMoveHead(branch: string): boolean
  /** Receives the body of git's answer. */
  observer: PushObserver
}

/** What stands between a push and the refs of a repository. */
interface PushGate {
  /** A folder for `core.hooksPath`: see `openHooksFolder`. */
  hooks: string
  decide: DecideRefs
}

/** Returns what the branch rules of a repository say about a push to it. */
export type ApplyRules = (pusher: Pusher) => Promise<Pick<PushPolicy, 'gate' | 'mayMoveHead'>>

/** An update of branches with rules. */
interface RuledUpdate {
  update: RefUpdate
  /** The rules of each branch that it changes. */
  rules: AppliedRule[][]
  /** Why it is refused whatever has been reported; null: it depends on the reports. */
  reason: string | null
}

const BRANCHES = 'refs/heads/'
const NO_OBJECT = /^0+$/
/** Maximum number of refs of one push. */
export const MAX_REFS = 10_000
const FAILED = 'the server cannot check the rules of its branches now; push again later'
const DELETED = 'a branch with required checks cannot be deleted'
const FORCED = 'a branch with required checks cannot be pushed to by force'
const TWICE = 'it was pushed more than once'
const ATOMIC = 'the push is atomic, and another ref was refused'

/**
 * Applies the branch rules to pushes. A branch moves to a commit only if all checks that it requires are met.
 * It is not deleted, and moves only to descendants of its tip.
 *
 * The reports are read after everything that takes long, so that only git's own steps lie between the decision and the update
 * of the ref. git compares the old tip again when it updates the ref.
 *
 * @param onError receives the error for which a push was refused
 */
export function createPushRules(
  { rules, statuses }: Pick<Store, 'rules' | 'statuses'>,
  onError: (error: unknown) => void,
): ApplyRules {
  /** Returns why a branch cannot move to the commit yet; null if it can. */
  async function unmet(repositoryId: number, sha: string, applying: AppliedRule[]): Promise<string | null> {
    return (await explainVerdict(await statuses.list(repositoryId, sha), requiredBy(applying))).reason
  }

  async function decide(
    pusher: Pusher,
    ofRepository: readonly AppliedRule[],
    pushed: PushedRefs,
  ): Promise<Map<string, string>> {
    const { updates, atomic } = pushed
    if (updates.length > MAX_REFS)
      return refuseAll(updates, `${updates.length} refs in one push; at most ${MAX_REFS} are allowed`)
    const refused = new Map(repeatedRefs(updates).map((ref) => [ref, TWICE]))
    const bypasses: Bypass[] = []
    for (const { update, rules: rulesOfBranches, reason } of await ruledUpdates(ofRepository, pushed)) {
      for (const applying of rulesOfBranches) {
        const why = reason ?? (await unmet(pusher.repositoryId, update.new, applying))
        if (why === null) continue
        if (isBypassedBy(applying, pusher.by.user.id)) bypasses.push({ ...update, reason: why })
        else refused.set(update.ref, why)
      }
    }
    if (atomic && refused.size > 0) return new Map([...refuseAll(updates, ATOMIC), ...refused])
    const made = bypasses.filter(({ ref }) => !refused.has(ref))
    if (made.length > 0) await rules.recordBypasses(pusher, made)
    return refused
  }

  return async (pusher) => {
    const ofRepository = await rules.load(pusher.repositoryId)
    const gate = async () => ({
      hooks: await openHooksFolder(),
      decide: (pushed: PushedRefs) =>
        decide(pusher, ofRepository, pushed).catch((error: unknown) => {
          onError(error)
          return refuseAll(pushed.updates, FAILED)
        }),
    })
    return {
      gate: ofRepository.length > 0 ? await gate() : null,
      mayMoveHead: (branch) => rulesFor(ofRepository, branch).length === 0,
    }
  }
}

/** Returns the updates of branches with rules, after everything was checked that does not depend on reports. */
async function ruledUpdates(
  rules: readonly AppliedRule[],
  { updates, path, signal }: PushedRefs,
): Promise<RuledUpdate[]> {
  const branchesOf = branchFinder(await readSymbolicRefs(path, signal))
  const ruled: RuledUpdate[] = []
  let index = 0
  await runInSlices(() => {
    const update = updates[index++]
    if (update === undefined) return false
    const applying = branchesOf(update.ref).map((branch) => rulesFor(rules, branch))
    const some = applying.filter((found) => found.length > 0)
    if (some.length > 0) ruled.push({ update, rules: some, reason: null })
    return true
  })
  for (const found of ruled) {
    const { old, new: tip } = found.update
    if (NO_OBJECT.test(tip)) found.reason = DELETED
    else if (!NO_OBJECT.test(old) && !(await isAncestor(path, old, tip, signal))) found.reason = FORCED
  }
  return ruled
}

/**
 * Returns a function that finds the names of the branches, without `refs/heads/`, that an update of a ref changes. git follows
 * symbolic refs, so these are the branch at the end and all branches that lead to it.
 */
function branchFinder(symbolic: ReadonlyMap<string, string>): (ref: string) => string[] {
  const aliases = Map.groupBy(symbolic.keys(), (ref) => symbolic.get(ref))
  return (ref) => {
    const target = symbolic.get(ref) ?? ref
    return [target, ...(aliases.get(target) ?? [])]
      .filter((name) => name.startsWith(BRANCHES))
      .map((name) => Buffer.from(name.slice(BRANCHES.length), 'latin1').toString())
  }
}

/** Returns refs that a push updates more than once. git's answers to the hook could not tell these updates apart. */
function repeatedRefs(updates: readonly RefUpdate[]): string[] {
  const seen = new Set<string>()
  return updates.map(({ ref }) => ref).filter((ref) => seen.size === seen.add(ref).size)
}

function refuseAll(updates: readonly RefUpdate[], reason: string): Map<string, string> {
  return new Map(updates.map(({ ref }) => [ref, reason]))
}

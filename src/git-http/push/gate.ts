import { type AppliedRule, isBypassedBy, requiredBy, rulesFor } from '../../domain/branch-rules.ts'
import { explainVerdict } from '../../domain/unmet-checks.ts'
import type { Pusher, RefUpdate } from '../../store/audit/audit.ts'
import type { Bypass } from '../../store/repositories/rules.ts'
import type { Store } from '../../store/store.ts'
import { runInSlices } from '../../util/run-in-slices.ts'
import type { PushedRefs } from './proc-receive.ts'
import { isAncestor, readSymbolicRefs } from './ref-graph.ts'

/** An update of branches with rules. */
interface RuledUpdate {
  update: RefUpdate
  /** The rules of each branch that it changes. */
  branches: AppliedRule[][]
}

const BRANCHES = 'refs/heads/'
const NO_OBJECT = /^0+$/
/** Maximum number of refs of a push that updates a branch with rules. git's own steps take longer the more there are. */
export const MAX_RULED_REFS = 50
const FAILED = 'the server cannot check the rules of its branches now; push again later'
const DELETED = 'a branch with required checks cannot be deleted'
const FORCED = 'a branch with required checks cannot be pushed to by force'
const ATOMIC = 'the push is atomic, and another ref was refused'

/**
 * Applies the branch rules to a push. A branch moves to a commit only if all checks that it requires are met. It is not deleted,
 * and moves only to descendants of its tip.
 *
 * Rules and reports are read after everything that takes long, so that only git's own steps lie between the decision and the
 * update of the ref. git compares the old tip again when it updates the ref.
 */
export class PushGate {
  /** Those before git started. */
  readonly rules: readonly AppliedRule[]
  readonly #store: Pick<Store, 'rules' | 'statuses'>
  readonly #pusher: Pusher
  readonly #path: string
  readonly #onError: (error: unknown) => void
  /** Why an update is refused whatever has been reported; null: it depends on the reports. */
  readonly #reasons = new Map<RefUpdate, string | null>()

  /** @param onError receives the error for which all refs are refused */
  constructor(
    store: Pick<Store, 'rules' | 'statuses'>,
    pusher: Pusher,
    path: string,
    rules: readonly AppliedRule[],
    onError: (error: unknown) => void,
  ) {
    this.rules = rules
    this.#store = store
    this.#pusher = pusher
    this.#path = path
    this.#onError = onError
  }

  /** Returns why a push has too many refs for its branches with rules, so that git need not run; null if it has not. */
  async limit(updates: readonly RefUpdate[], signal: AbortSignal): Promise<string | null> {
    if (updates.length <= MAX_RULED_REFS) return null
    const ruled = await ruledUpdates(this.rules, updates, await this.#findBranches(signal))
    const { id } = this.#pusher.by.user
    if (ruled.every(({ branches }) => branches.every((rules) => isBypassedBy(rules, id)))) return null
    return `${updates.length} refs in one push with a branch that has required checks; at most ${MAX_RULED_REFS} are allowed: push fewer at a time`
  }

  /** Decides which refs are not updated. Returns a reason for each of them. */
  decide(pushed: PushedRefs): Promise<Map<string, string>> {
    return this.#decide(pushed).catch((error: unknown) => {
      this.#onError(error)
      return refuseAll(pushed.updates, FAILED)
    })
  }

  async #decide({ updates, atomic, signal }: PushedRefs): Promise<Map<string, string>> {
    const branchesOf = await this.#findBranches(signal)
    const prepare = async (rules: readonly AppliedRule[]) => {
      const ruled = await ruledUpdates(rules, updates, branchesOf)
      for (const { update } of ruled) await this.#compare(update, signal)
      return ruled
    }
    await prepare(this.rules)
    // A rule may have been added meanwhile. What has been compared already is not compared again.
    const ruled = await prepare(await this.#store.rules.load(this.#pusher.repositoryId))
    const { refused, bypasses } = await this.#check(ruled)
    if (atomic && refused.size > 0) return new Map([...refuseAll(updates, ATOMIC), ...refused])
    const made = bypasses.filter(({ ref }) => !refused.has(ref))
    if (made.length > 0) await this.#store.rules.recordBypasses(this.#pusher, made)
    return refused
  }

  /** Compares an update with the graph of commits, once. */
  async #compare(update: RefUpdate, signal: AbortSignal): Promise<void> {
    if (this.#reasons.has(update)) return
    const { old, new: tip } = update
    const moves = NO_OBJECT.test(old) || NO_OBJECT.test(tip) ? null : isAncestor(this.#path, old, tip, signal)
    this.#reasons.set(update, NO_OBJECT.test(tip) ? DELETED : (await moves) === false ? FORCED : null)
  }

  /** Reads the reports. Returns a reason for each ref that is refused, and what the user may update all the same. */
  async #check(ruled: readonly RuledUpdate[]) {
    const refused = new Map<string, string>()
    const bypasses: Bypass[] = []
    const { repositoryId, by } = this.#pusher
    for (const { update, branches } of ruled) {
      for (const rules of branches) {
        const reason =
          this.#reasons.get(update) ??
          (await explainVerdict(await this.#store.statuses.list(repositoryId, update.new), requiredBy(rules)))
            .reason
        if (reason === null) continue
        if (isBypassedBy(rules, by.user.id)) bypasses.push({ ...update, reason })
        else refused.set(update.ref, reason)
      }
    }
    return { refused, bypasses }
  }

  /**
   * Returns a function that finds the names of the branches, without `refs/heads/`, that an update of a ref changes. git follows
   * symbolic refs, so these are the branch at the end and all branches that lead to it.
   */
  async #findBranches(signal: AbortSignal): Promise<(ref: string) => string[]> {
    const symbolic = await readSymbolicRefs(this.#path, signal)
    const aliases = Map.groupBy(symbolic.keys(), (ref) => symbolic.get(ref))
    return (ref) => {
      const target = symbolic.get(ref) ?? ref
      return [target, ...(aliases.get(target) ?? [])]
        .filter((name) => name.startsWith(BRANCHES))
        .map((name) => Buffer.from(name.slice(BRANCHES.length), 'latin1').toString())
    }
  }
}

/** Returns the updates of branches with rules. */
async function ruledUpdates(
  rules: readonly AppliedRule[],
  updates: readonly RefUpdate[],
  branchesOf: (ref: string) => string[],
): Promise<RuledUpdate[]> {
  const ruled: RuledUpdate[] = []
  let index = 0
  await runInSlices(() => {
    const update = updates[index++]
    if (update === undefined) return false
    const branches = branchesOf(update.ref)
      .map((branch) => rulesFor(rules, branch))
      .filter((found) => found.length > 0)
    if (branches.length > 0) ruled.push({ update, branches })
    return true
  })
  return ruled
}

function refuseAll(updates: readonly RefUpdate[], reason: string): Map<string, string> {
  return new Map(updates.map(({ ref }) => [ref, reason]))
}

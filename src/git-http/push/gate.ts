import { setImmediate } from 'node:timers/promises'
import type { Pusher } from '../../domain/actors.ts'
import { TAGS } from '../../domain/ref-names.ts'
import { isBypassedBy, type RefRule, refRuleMatcher, requiredBy } from '../../domain/ref-rules.ts'
import { isObstacle, type RefRefusal, type RefUpdate } from '../../domain/ref-updates.ts'
import { explanationSteps, type ReportedContext, type Steps } from '../../domain/verdict.ts'
import { ServiceError } from '../../errors.ts'
import type { OpenedRepository } from '../../git/opened-repository.ts'
import { findChangedRefs } from '../../git/refs/symbolic-refs.ts'
import { decodeLatin1 } from '../../git/run-git.ts'
import type { QueueClient } from '../../schedule/fair-queue.ts'
import type { Turns } from '../../schedule/turns.ts'
import type { Store } from '../../store/store.ts'
import { type ChangedRef, type Comparisons, compareUpdates } from './compare-updates.ts'
import type { PushedRefs } from './proc-receive.ts'
import { adviceOf, bypassLines, type RuledOut } from './report.ts'

/** The push that is decided, and with what. */
interface GatedPush {
  store: Pick<Store, 'rules' | 'reportedContexts'>
  pusher: Pusher
  opened: OpenedRepository
  /** The rules before git started. */
  rules: readonly RefRule[]
  /** Why refs are not updated whatever the rules say. */
  impossible: ReadonlyMap<string, RefRefusal>
  /** The page of the repository. */
  repositoryUrl: string
  /** Throws if the user may not push any more. */
  authorizeAgain(): Promise<void>
  /** Those of the users whose pushes are decided. */
  turns: Turns
  /** Receives the error for which a push was refused. */
  onError(error: unknown): void
}

/** What is decided about the refs of a push. */
export interface Decision {
  /** Of each ref that is not updated. */
  refusals: Map<string, RefRefusal>
  /** Lines that say what to do about it: see `adviceOf`. */
  advice: string[]
}

/** A commit, and the rules of a ref to which it is pushed. */
interface RuledCommit {
  sha: string
  rules: readonly RefRule[]
}

/** A branch or tag with rules that an update changes. */
interface RuledRef extends ChangedRef {
  /** Its full name. */
  ref: string
  rules: readonly RefRule[]
}

/** Commits that one statement reads: 30 with 1,000 contexts each take 50 ms. */
const READ_AT_ONCE = 30
/**
 * Maximum number of branches with rules that one push updates. To compare each with its tip, git may
 * read as much of its history as it has.
 */
export const MAX_RULED_BRANCHES = 50
const FAILED: RefRefusal = {
  reason: 'the server cannot check the rules of the repository now; push again later',
  kind: 'unavailable',
}
const NO_ACCESS: RefRefusal = { reason: 'you may not push here any more', kind: 'no access' }
const ATOMIC: RefRefusal = { reason: 'the push is atomic, and another ref was refused', kind: 'atomic' }

/**
 * Applies the rules to a push. A branch moves to a commit, and a tag of a commit is created, only if
 * all checks that it requires are met. A branch is not deleted, and moves only to descendants of its
 * tip. A tag is neither moved nor deleted.
 *
 * Access, rules and reports are read after everything that takes long, so that only git's own steps
 * lie between the decision and the update of the ref. git compares the old tip again when it
 * updates the ref.
 */
export async function decide(push: GatedPush, pushed: PushedRefs): Promise<Decision> {
  try {
    return await decideRefs(push, pushed)
  } catch (error) {
    if (error instanceof ServiceError) return refuseAll(pushed.updates, NO_ACCESS)
    // A client that disconnects is no error of the server.
    if (!pushed.signal.aborted) push.onError(error)
    return refuseAll(pushed.updates, FAILED)
  }
}

async function decideRefs(
  { store, pusher, opened, rules: rulesBefore, impossible, authorizeAgain, repositoryUrl, turns }: GatedPush,
  { updates: asked, atomic, signal }: PushedRefs,
): Promise<Decision> {
  const { repositoryId } = pusher
  const userId = pusher.by.user.id
  const updates = asked.filter(({ ref }) => !impossible.has(ref))
  const changedRefs = await findChangedRefs(opened, { signal })
  const ruledBefore = ruledRefs(rulesBefore, updates, changedRefs)
  // Not all of them are compared, which takes long.
  const tooMany = findTooMany(ruledBefore, userId)
  if (tooMany) return refuseAll(asked, tooMany)
  const comparisons: Comparisons = { branches: new Map(), tags: new Map() }
  await compareUpdates(opened, ruledBefore, comparisons, signal)
  await authorizeAgain()
  // A rule may have been added meanwhile.
  const rulesNow = await store.rules.load(repositoryId)
  const ruled = await compareUpdates(opened, ruledRefs(rulesNow, updates, changedRefs), comparisons, signal)
  const undecided = ruled.filter(({ refusal }) => refusal === null)
  const client = { address: `user ${userId}`, signal }
  const unmet = await findUnmetChecks({ store, turns }, repositoryId, undecided, client)

  const refusals = new Map<string, RefRefusal>()
  // git does not ask about refs that it refuses by itself.
  for (const { ref } of asked) {
    const refusal = impossible.get(ref)
    if (refusal) refusals.set(ref, refusal)
  }
  const ruledOut: RuledOut[] = []
  const bypasses = new Map<string, Set<RefUpdate>>()
  for (const it of ruled) {
    const { update, ref, rules, sha } = it
    const refusal = it.refusal ?? unmet.get(it)
    if (!refusal) continue
    const { reason, kind } = refusal
    // git refuses the others too, whoever pushes them.
    if (isObstacle(kind) && isBypassedBy(rules, userId)) {
      bypasses.set(reason, (bypasses.get(reason) ?? new Set()).add(update))
      continue
    }
    refusals.set(update.ref, refusal)
    if (isObstacle(kind)) ruledOut.push({ ref, obstacle: kind, sha })
  }

  const advice = adviceOf(ruledOut, rulesNow, repositoryUrl)
  if (atomic && refusals.size > 0)
    return { refusals: new Map([...refuseAll(asked, ATOMIC).refusals, ...refusals]), advice }
  for (const [reason, bypassed] of bypasses) {
    for (const update of bypassed) if (refusals.has(update.ref)) bypassed.delete(update)
    if (bypassed.size === 0) bypasses.delete(reason)
  }
  if (bypasses.size > 0) await store.rules.recordBypasses(pusher, bypasses)
  const bypassed = [...bypasses].flatMap(([reason, some]) =>
    [...some].map(({ ref }) => ({ ref: decodeLatin1(ref), reason })),
  )
  return { refusals, advice: [...advice, ...bypassLines(bypassed)] }
}

/** Returns the branches and tags with rules that updates change. Rules match no other refs. */
function ruledRefs(
  rules: readonly RefRule[],
  updates: readonly RefUpdate[],
  changedRefs: (ref: string) => string[],
): RuledRef[] {
  const rulesOf = refRuleMatcher(rules)
  const ruled: RuledRef[] = []
  for (const update of updates)
    for (const ref of changedRefs(update.ref)) {
      const rules = rulesOf(ref)
      if (rules.length > 0) ruled.push({ update, ref, rules, isTag: ref.startsWith(TAGS) })
    }
  return ruled
}

/** Returns why too many branches are pushed; null if they are not, or the user bypasses their rules. */
function findTooMany(ruled: readonly RuledRef[], userId: number): RefRefusal | null {
  const branches = new Set<RefUpdate>()
  for (const { update, isTag } of ruled) if (!isTag) branches.add(update)
  if (branches.size <= MAX_RULED_BRANCHES) return null
  if (ruled.every(({ update, rules }) => !branches.has(update) || isBypassedBy(rules, userId))) return null
  const reason = `${branches.size} branches with required checks in one push; at most ${MAX_RULED_BRANCHES} are allowed: push fewer at a time`
  return { reason, kind: 'limit' }
}

/**
 * Reads what has been reported on commits.
 *
 * @param client takes turns with others
 * @returns why commits may not be pushed to a ref with these rules yet; without those that have passed
 * @throws StoreUnavailable, QueueFull; the reason of the client's signal
 */
export async function findUnmetChecks<Commit extends RuledCommit>(
  { store, turns }: { store: Pick<Store, 'reportedContexts'>; turns: Turns },
  repositoryId: number,
  commits: readonly Commit[],
  client: QueueClient,
): Promise<Map<Commit, RefRefusal>> {
  const bySha = Map.groupBy(commits, ({ sha }) => sha)
  const shas = [...bySha.keys()]
  const unmet = new Map<Commit, RefRefusal>()
  function* decideSome(some: readonly string[], lists: readonly (readonly ReportedContext[])[]): Steps<void> {
    for (const [index, sha] of some.entries()) {
      // Many refs have the same rules. Each list of patterns is decided once.
      const decided = new Map<string, RefRefusal | null>()
      for (const commit of bySha.get(sha) ?? []) {
        const required = requiredBy(commit.rules)
        // No pattern contains it.
        const key = required.join('\0')
        let refusal = decided.get(key)
        if (refusal === undefined) {
          const { reason, verdict } = yield* explanationSteps(lists[index] ?? [], required)
          refusal =
            reason === null ? null : { reason, kind: verdict === 'failure' ? 'failed checks' : 'checks' }
          decided.set(key, refusal)
        }
        if (refusal) unmet.set(commit, refusal)
        yield
      }
    }
  }

  for (let start = 0; start < shas.length; start += READ_AT_ONCE) {
    const some = shas.slice(start, start + READ_AT_ONCE)
    const lists = await store.reportedContexts(repositoryId, some)
    await turns.finish(client, decideSome(some, lists))
    await setImmediate()
    client.signal?.throwIfAborted()
  }
  return unmet
}

function refuseAll(updates: readonly RefUpdate[], refusal: RefRefusal): Decision {
  return { refusals: new Map(updates.map(({ ref }) => [ref, refusal])), advice: [] }
}

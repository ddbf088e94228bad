import type { Pusher } from '../../domain/actors.ts'
import { NO_OBJECT } from '../../domain/commit-id.ts'
import { TAGS } from '../../domain/ref-names.ts'
import { isBypassedBy, type RefRule, refRuleMatcher } from '../../domain/ref-rules.ts'
import { isObstacle, type RefRefusal, type RefUpdate } from '../../domain/ref-updates.ts'
import { ServiceError } from '../../errors.ts'
import type { OpenedRepository } from '../../git/opened-repository.ts'
import { findChangedRefs } from '../../git/refs/changed-refs.ts'
import { decodeLatin1 } from '../../git/run-git.ts'
import type { Turns } from '../../schedule/turns.ts'
import type { Store } from '../../store/store.ts'
import type { PushedRefs } from './proc-receive.ts'
import { compareTips, type Move, peelToCommits } from './ref-graph.ts'
import { adviceOf, bypassLines, type RuledOut } from './report.ts'
import { findUnmetChecks, type UnmetChecks } from './unmet-checks.ts'

/** The push that is decided, and with what. */
interface GatedPush {
  store: Pick<Store, 'rules' | 'reportedContexts'>
  pusher: Pusher
  opened: OpenedRepository
  /** The rules before git started. */
  rules: readonly RefRule[]
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

/** An update of branches and tags with rules. */
interface RuledUpdate {
  update: RefUpdate
  /** Each branch and tag that it changes. */
  refs: { ref: string; rules: RefRule[] }[]
}

/** What the objects say about an update. */
interface Comparison {
  /** Why it is refused whatever has been reported; null: it depends on the reports. */
  refusal: RefRefusal | null
  /** The commit whose reports count. */
  sha: string
}

/**
 * Maximum number of branches with rules that one push updates: each is compared with its tip. Tags
 * are compared together.
 */
export const MAX_RULED_BRANCHES = 50
const FAILED: RefRefusal = {
  reason: 'the server cannot check the rules of the repository now; push again later',
  kind: 'unavailable',
}
const NO_ACCESS: RefRefusal = { reason: 'you may not push here any more', kind: 'no access' }
const ATOMIC: RefRefusal = { reason: 'the push is atomic, and another ref was refused', kind: 'atomic' }
const BRANCH_DELETED: RefRefusal = {
  reason: 'a branch with required checks cannot be deleted',
  kind: 'branch deleted',
}
const TAG_DELETED: RefRefusal = {
  reason: 'a tag with required checks cannot be deleted',
  kind: 'tag deleted',
}
const TAG_MOVED: RefRefusal = { reason: 'a tag with required checks cannot be moved', kind: 'tag moved' }
const TAG_OF_NO_COMMIT: RefRefusal = {
  reason: 'a tag with required checks must name a commit',
  kind: 'tag of no commit',
}
/** Why a move of a branch is refused whatever has been reported. */
const MOVES: Record<Move, RefRefusal | null> = {
  created: null,
  forward: null,
  forced: {
    reason: 'a branch with required checks cannot be pushed to by force',
    kind: 'branch forced',
  },
  'not from a commit': { reason: 'the branch has changed; fetch and push again', kind: 'changed' },
  'not to a commit': { reason: 'not a commit', kind: 'not a commit' },
}

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
    push.onError(error)
    return refuseAll(pushed.updates, FAILED)
  }
}

async function decideRefs(
  { store, pusher, opened, rules: rulesBefore, authorizeAgain, repositoryUrl, turns }: GatedPush,
  { updates, atomic, signal }: PushedRefs,
): Promise<Decision> {
  const { repositoryId } = pusher
  const userId = pusher.by.user.id
  const refsOf = await findChangedRefs(opened, { signal })
  const branches = new Map<RefUpdate, Comparison>()
  const tags = new Map<RefUpdate, Comparison>()
  const compare = async (rules: readonly RefRule[]) => {
    const ruled = ruledUpdates(rules, updates, refsOf)
    const updatesOf = (ofKind: (it: RuledUpdate) => boolean, known: ReadonlyMap<RefUpdate, Comparison>) =>
      ruled.filter((it) => ofKind(it) && !known.has(it.update)).map(({ update }) => update)
    const newBranches = updatesOf(hasBranch, branches)
    const newTags = updatesOf(hasTag, tags)
    for (const [update, it] of await compareBranches(opened, newBranches, signal)) branches.set(update, it)
    for (const [update, it] of await compareTags(opened, newTags, signal)) tags.set(update, it)
    return ruled
  }
  const isBypassed = ({ refs }: RuledUpdate) => refs.every(({ rules }) => isBypassedBy(rules, userId))

  const ruledBranches = ruledUpdates(rulesBefore, updates, refsOf).filter(hasBranch)
  // Not all of them are compared, which takes long.
  if (ruledBranches.length > MAX_RULED_BRANCHES && !ruledBranches.every(isBypassed))
    return refuseAll(updates, tooMany(ruledBranches.length))
  await compare(rulesBefore)
  await authorizeAgain()
  // A rule may have been added meanwhile. What has been compared already is not compared again.
  const rulesNow = await store.rules.load(repositoryId)
  const ruled = await compare(rulesNow)

  const wanted = ruled.flatMap(({ update, refs }) =>
    refs.map(({ ref, rules }) => {
      const comparison = (isTag(ref) ? tags : branches).get(update)
      if (!comparison) throw new Error(`${update.ref} was not compared`)
      return { update, ref, rules, ...comparison }
    }),
  )
  const undecided = wanted.filter(({ refusal }) => refusal === null)
  const unmetChecksOf = await findUnmetChecks({ store, turns }, repositoryId, undecided, {
    address: `user ${userId}`,
    signal,
  })

  const refusals = new Map<string, RefRefusal>()
  const ruledOut: RuledOut[] = []
  const bypasses = new Map<string, Set<RefUpdate>>()
  for (const { update, ref, rules, sha, refusal } of wanted) {
    const unmet = refusal ?? refusalFor(unmetChecksOf({ sha, rules }))
    if (unmet === null) continue
    const { reason, kind } = unmet
    // git refuses the others too, whoever pushes them.
    if (isObstacle(kind) && isBypassedBy(rules, userId)) {
      bypasses.set(reason, (bypasses.get(reason) ?? new Set()).add(update))
      continue
    }
    refusals.set(update.ref, unmet)
    if (isObstacle(kind)) ruledOut.push({ ref, obstacle: kind, sha })
  }

  const advice = adviceOf(ruledOut, rulesNow, repositoryUrl)
  if (atomic && refusals.size > 0)
    return { refusals: new Map([...refuseAll(updates, ATOMIC).refusals, ...refusals]), advice }
  for (const bypassed of bypasses.values())
    for (const update of bypassed) if (refusals.has(update.ref)) bypassed.delete(update)
  if (bypasses.size > 0) await store.rules.recordBypasses(pusher, bypasses)
  const bypassed = [...bypasses].flatMap(([reason, some]) =>
    [...some].map(({ ref }) => ({ ref: decodeLatin1(ref), reason })),
  )
  return { refusals, advice: [...advice, ...bypassLines(bypassed)] }
}

/** Returns the refusal for checks that are not met. */
function refusalFor(unmet: UnmetChecks | null): RefRefusal | null {
  return unmet && { reason: unmet.reason, kind: unmet.hasFailed ? 'failed checks' : 'checks' }
}

/** Compares branches with their tips. */
async function compareBranches(
  repository: OpenedRepository,
  updates: readonly RefUpdate[],
  signal: AbortSignal,
): Promise<Map<RefUpdate, Comparison>> {
  const isDeletion = (update: RefUpdate) => NO_OBJECT.test(update.new)
  const others = updates.filter((update) => !isDeletion(update))
  const moves = await compareTips(repository, others, signal)
  return new Map([
    ...updates
      .filter(isDeletion)
      .map((update) => [update, { refusal: BRANCH_DELETED, sha: update.new }] as const),
    ...[...moves].map(([update, move]) => [update, { refusal: MOVES[move], sha: update.new }] as const),
  ])
}

/** Compares tags with the rules for them, all in one process. */
async function compareTags(
  repository: OpenedRepository,
  updates: readonly RefUpdate[],
  signal: AbortSignal,
): Promise<Map<RefUpdate, Comparison>> {
  const created = updates.filter((update) => NO_OBJECT.test(update.old) && !NO_OBJECT.test(update.new))
  const ids = created.map((update) => update.new)
  const commits = await peelToCommits(repository, [...new Set(ids)], signal)
  return new Map(
    updates.map((update) => {
      const commit = commits.get(update.new)
      const sha = commit ?? update.new
      if (NO_OBJECT.test(update.new)) return [update, { refusal: TAG_DELETED, sha }]
      if (!NO_OBJECT.test(update.old)) return [update, { refusal: TAG_MOVED, sha }]
      return [update, { refusal: commit === undefined ? TAG_OF_NO_COMMIT : null, sha }]
    }),
  )
}

/** Returns the updates of branches and tags with rules. Rules match no other refs. */
function ruledUpdates(
  rules: readonly RefRule[],
  updates: readonly RefUpdate[],
  refsOf: (ref: string) => string[],
): RuledUpdate[] {
  const rulesOf = refRuleMatcher(rules)
  return updates.flatMap((update) => {
    const refs = refsOf(update.ref)
      .map((ref) => ({ ref, rules: rulesOf(ref) }))
      .filter(({ rules }) => rules.length > 0)
    return refs.length > 0 ? [{ update, refs }] : []
  })
}

function isTag(ref: string): boolean {
  return ref.startsWith(TAGS)
}

function hasBranch({ refs }: RuledUpdate): boolean {
  return refs.some(({ ref }) => !isTag(ref))
}

function hasTag({ refs }: RuledUpdate): boolean {
  return refs.some(({ ref }) => isTag(ref))
}

function tooMany(count: number): RefRefusal {
  const reason = `${count} branches with required checks in one push; at most ${MAX_RULED_BRANCHES} are allowed: push fewer at a time`
  return { reason, kind: 'limit' }
}

function refuseAll(updates: readonly RefUpdate[], refusal: RefRefusal): Decision {
  return { refusals: new Map(updates.map(({ ref }) => [ref, refusal])), advice: [] }
}

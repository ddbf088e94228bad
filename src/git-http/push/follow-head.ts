import { NO_OBJECT } from '../../domain/commit-id.ts'
import { BRANCHES } from '../../domain/ref-names.ts'
import type { RefRefusal, RefUpdate } from '../../domain/ref-updates.ts'
import type { OpenedRepository } from '../../git/opened-repository.ts'
import { followsDeletions, leaveDeletedBranch } from '../../git/refs/default-branch.ts'
import { readHeadRefs } from '../../git/refs/head.ts'
import type { RunLimits } from '../../git/refs/list-refs.ts'
import { type RefIds, readRefIds } from '../../git/refs/ref-ids.ts'
import { readSymbolicRefs } from '../../git/refs/symbolic-refs.ts'
import { decodeLatin1 } from '../../git/run-git.ts'

/** What becomes of HEAD when a push deletes the branch that it names. */
export interface HeadPlan {
  /** The ref that HEAD leaves then, so that git may delete it; null: it may not. */
  leaves: string | null
  /** Lines for the people who pushed, if it may not. */
  advice: string[]
}

/** Where HEAD goes if the push creates no branch that continues the deleted one. */
const USUAL = ['main', 'master'].map((name) => `${BRANCHES}${name}`)

/**
 * Decides before git starts whether a push may delete the branch that HEAD names. git alone refuses
 * that, so a mirror of a repository whose default branch was renamed would fail for ever.
 *
 * HEAD moves when git has ended: whether a created branch continues the deleted one may be known only
 * when its commits have arrived, and there is nothing to put back if the push is refused or killed.
 *
 * @param before the refs that the commands name
 * @param repository its name, and whether the server created it: HEAD of others is their owners'
 */
export async function planHead(
  opened: OpenedRepository,
  commands: readonly RefUpdate[],
  before: RefIds,
  { name, managed }: { name: string; managed: boolean },
): Promise<HeadPlan> {
  const nothing = { leaves: null, advice: [] }
  if (!commands.some(isDeletion)) return nothing
  const [head = ''] = await readHeadRefs(opened)
  if (!before.has(head) || !commands.some((command) => isDeletion(command) && command.ref === head))
    return nothing
  const follows = managed && (await followsDeletions(opened))
  if (follows && (await hasSuccessor(opened, commands))) return { leaves: head, advice: [] }

  const command = `  commit-status-admin repo default-branch ${name}`
  const branch = decodeLatin1(head.slice(BRANCHES.length))
  const advice = [
    `${branch} is the default branch. An administrator can choose another one:`,
    `${command} BRANCH`,
  ]
  if (managed && !follows) advice.push('or let it follow pushes, as in a mirror:', `${command} --follow`)
  return { leaves: null, advice }
}

/**
 * Returns the refs whose deletion would delete the branch of HEAD, with the reason to refuse that: git
 * compares names alone, but follows symbolic refs when it deletes.
 *
 * @param commands deletions are from the value that the ref has
 * @throws GitFailed, RepositoryUnavailable, the system's error; the signal's reason
 */
export async function findAliasesOfHead(
  opened: OpenedRepository,
  commands: readonly RefUpdate[],
  limits: RunLimits,
): Promise<Map<string, RefRefusal>> {
  const refusals = new Map<string, RefRefusal>()
  const deletions = commands.filter((command) => NO_OBJECT.test(command.new))
  const end = deletions.length > 0 ? (await readHeadRefs(opened, limits)).at(-1) : undefined
  // Where the push names the branch itself, git skips other names of it.
  if (end === undefined || commands.some(({ ref }) => ref === end)) return refusals
  const id = (await readRefIds(opened, [end], limits)).get(end)
  const likely = deletions.filter(({ old }) => old === id)
  if (likely.length === 0) return refusals

  const symbolic = await readSymbolicRefs(opened, limits)
  const reason = `it is another name of ${nameOf(end)}, the default branch, which would be deleted`
  for (const { ref } of likely)
    if (symbolic.get(ref) === end) refusals.set(ref, { reason, kind: 'default branch' })
  return refusals
}

/**
 * Lets HEAD leave the branch that a push has deleted, for one that the push has created at the same
 * commit or a descendant, else `main`, else `master`. Call it when git has ended, and again where the
 * end was not recorded.
 *
 * @param leaves see `HeadPlan`
 * @param isAgain see `leaveDeletedBranch`
 * @returns the branches before and after; null if HEAD stays
 */
export async function followPush(
  opened: OpenedRepository,
  commands: readonly RefUpdate[],
  leaves: string | null,
  isAgain: boolean,
): Promise<{ from: string; to: string } | null> {
  const deletion = commands.find((command) => isDeletion(command) && command.ref === leaves)
  if (!deletion) return null
  const created = commands.filter(isCreation).map(({ ref }) => ref)
  const to = await leaveDeletedBranch(opened, deletion, { created, usual: USUAL }, isAgain)
  return to === null ? null : { from: nameOf(deletion.ref), to: nameOf(to) }
}

/** Returns whether HEAD can go elsewhere, as far as that is known before the push. */
async function hasSuccessor(opened: OpenedRepository, commands: readonly RefUpdate[]): Promise<boolean> {
  if (commands.some(isCreation)) return true
  const deleted = new Set(commands.filter(isDeletion).map(({ ref }) => ref))
  const ids = await readRefIds(opened, USUAL, {})
  return USUAL.some((ref) => ids.has(ref) && !deleted.has(ref))
}

function isDeletion({ ref, new: id }: RefUpdate): boolean {
  return ref.startsWith(BRANCHES) && NO_OBJECT.test(id)
}

function isCreation({ ref, old, new: id }: RefUpdate): boolean {
  return ref.startsWith(BRANCHES) && NO_OBJECT.test(old) && !NO_OBJECT.test(id)
}

function nameOf(ref: string): string {
  return decodeLatin1(ref.slice(BRANCHES.length))
}

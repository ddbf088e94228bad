import { decodeLatin1 } from '../../git/run-git.ts'
import { truncate } from '../../util/truncate.ts'

/** What stops an update: reports that are missing or have failed, or a rule that holds whatever has been reported. */
const OBSTACLES = [
  ...(['checks', 'failed checks', 'branch deleted', 'branch forced'] as const),
  ...(['tag deleted', 'tag moved', 'tag of no commit'] as const),
] as const

export type Obstacle = (typeof OBSTACLES)[number]

/** Why refs of a push are not updated. These are labels of a metric, so none contains what a client sent. */
export const REFUSAL_KINDS = [
  ...OBSTACLES,
  ...(['not a commit', 'atomic', 'changed', 'non-fast-forward', 'default branch', 'settings'] as const),
  ...(['objects', 'limit', 'malformed', 'no access', 'no room', 'unavailable', 'other'] as const),
] as const

export type RefusalKind = (typeof REFUSAL_KINDS)[number]

/** Why a ref is not updated. */
export interface RefRefusal {
  /** For people. May contain what a client sent. */
  reason: string
  kind: RefusalKind
}

/** A ref that was not updated, by its full name, in the Latin-1 of the commands. */
export interface RefusedRef extends RefRefusal {
  ref: string
}

/** Reasons that git gives (builtin/receive-pack.c; refs.c since 2.50), which it does not translate here. */
const REASONS_OF_GIT: ReadonlyMap<string, RefusalKind> = new Map([
  ['atomic push failure', 'atomic'],
  ['atomic transaction failed', 'atomic'],
  ['failed to update ref', 'changed'],
  ['incorrect old value provided', 'changed'],
  ['reference already exists', 'changed'],
  ['reference does not exist', 'changed'],
  ['refname conflict', 'changed'],
  ['non-fast-forward', 'non-fast-forward'],
  ['deletion of the current branch prohibited', 'default branch'],
  ['branch is currently checked out', 'settings'],
  ['deletion prohibited', 'settings'],
  ['deny deleting a hidden ref', 'settings'],
  ['deny updating a hidden ref', 'settings'],
  ['bad pack', 'objects'],
  ['missing necessary objects', 'objects'],
  ['shallow error', 'objects'],
  ['shallow update not allowed', 'objects'],
  ['unpacker error', 'objects'],
])
/** Maximum number of refs of a push that are logged. */
const MAX_LOGGED = 10
const MAX_REASON = 300

/** Returns whether users may be allowed to bypass what refuses a ref. */
export function isObstacle(kind: RefusalKind): kind is Obstacle {
  const obstacles: readonly RefusalKind[] = OBSTACLES
  return obstacles.includes(kind)
}

/** Returns the kind of a reason that git has given by itself. */
export function kindOfGit(reason: string): RefusalKind {
  return REASONS_OF_GIT.get(reason) ?? 'other'
}

/**
 * Returns what to log about refs that were not updated: for each of the first ones, and how many
 * there are more.
 */
export function refusalLines(refused: readonly RefusedRef[]): { fields: object; message: string }[] {
  const lines = refused.slice(0, MAX_LOGGED).map(({ ref, reason, kind }) => ({
    fields: { ref: decodeLatin1(ref), kind, reason: truncate(reason, MAX_REASON) },
    message: 'push refused',
  }))
  const more = refused.length - MAX_LOGGED
  return more > 0 ? [...lines, { fields: {}, message: `push refused: and ${more} more refs` }] : lines
}

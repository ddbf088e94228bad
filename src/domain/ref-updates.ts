/** A move of a ref from one id to another, as git's protocol names it. */
export interface RefUpdate {
  /** Its full name, whose bytes are decoded as Latin-1, because they may not be UTF-8. */
  ref: string
  /** All zeros for a new ref. git compares it when it updates the ref. */
  old: string
  /** All zeros to delete the ref. */
  new: string
  /** Never set: it keeps this type and `NamedUpdate` apart. */
  encoding?: 'latin1'
}

/** The same as people read it: the name is decoded as UTF-8. */
export interface NamedUpdate extends Pick<RefUpdate, 'ref' | 'old' | 'new'> {
  encoding?: 'utf8'
}

/** Returns an update as people read it. */
export function decodeName({ ref, old, new: id }: RefUpdate): NamedUpdate {
  return { ref: Buffer.from(ref, 'latin1').toString(), old, new: id }
}

/** Returns whether an update changes its ref. */
export function isMove(update: RefUpdate): boolean {
  return update.old !== update.new
}

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

/** Returns whether users may be allowed to bypass what refuses a ref. */
export function isObstacle(kind: RefusalKind): kind is Obstacle {
  const obstacles: readonly RefusalKind[] = OBSTACLES
  return obstacles.includes(kind)
}

import type { RefusalKind } from '../../domain/ref-updates.ts'
import { decodeLatin1 } from '../../git/run-git.ts'
import { truncate } from '../../util/truncate.ts'

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
/** Characters of a name or a reason. */
const MAX_TEXT = 300

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
    fields: { ref: truncate(decodeLatin1(ref), MAX_TEXT), kind, reason: truncate(reason, MAX_TEXT) },
    message: 'push refused',
  }))
  const more = refused.length - MAX_LOGGED
  return more > 0 ? [...lines, { fields: {}, message: `push refused: and ${more} more refs` }] : lines
}

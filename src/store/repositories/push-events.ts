import { nameKey } from '../../domain/names.ts'
import { decodeName, type NamedUpdate, type RefUpdate } from '../../domain/ref-updates.ts'
import type { AuditEvent, NamedRepository, PushDetails } from '../audit/audit.ts'
import { MAX_UPDATES, type pushedRepository, readDetails } from '../audit/event-rows.ts'
import type { Queries } from '../tables.ts'

/**
 * What became of the updates that a push asked for. Those that were not made are in neither list.
 */
export interface PushOutcome {
  updates: readonly RefUpdate[]
  /** Updates that may have been made: their refs have other values by now. */
  unknown?: readonly RefUpdate[]
  /** Whether refs were compared, because git did not report the updates. */
  unreported?: true
  /** Whether the server did not see the end of the push. */
  interrupted?: true
  /** Patterns of rules for updated refs that were set too late to decide about the push. */
  unchecked?: readonly string[]
  /**
   * How HEAD has left the branch that the push deleted, or that did not exist. The push itself may
   * have updated nothing.
   */
  head?: { from: string; to: string } | null
}

/** Returns whether an outcome gets into the audit log. An interrupted push does in any case. */
export function isEvent({ updates, unknown = [], interrupted }: PushOutcome): boolean {
  return interrupted === true || updates.length > 0 || unknown.length > 0
}

/**
 * Returns the outcome of a push that git has not reported. Of equal updates git makes one and refuses
 * the others, and the refs do not tell which: an update that an event since `start` lists becomes
 * unknown, and so does one that another push under way may have made, unless the push was interrupted:
 * that one has begun after it.
 */
export async function withoutOthers(
  db: Queries,
  { id, name }: NamedRepository,
  start: number,
  { updates, unknown = [], ...outcome }: PushOutcome,
): Promise<PushOutcome> {
  const events = await db
    .selectFrom('audit_events')
    .select('details')
    .where('repository_key', '=', nameKey(name))
    .where(({ eb, or }) => or([eb('repository_id', '=', id), eb('repository_id', 'is', null)]))
    .where('time', '>=', start)
    .where('action', '=', 'push')
    .execute()
  const open = db.selectFrom('push_intents').select('commands').where('repository_id', '=', id)
  const others = outcome.interrupted ? [] : await open.execute()
  const possible = new Set([
    // Only `eventOf` returns events of pushes; details that are too long are omitted.
    ...events.flatMap(({ details }) => {
      const { updates = [], unknown = [] } = (readDetails(details) ?? {}) as Partial<PushDetails>
      return [...updates, ...unknown].map(textOf)
    }),
    // Only `open` of the store of pushes writes them.
    ...others.flatMap(({ commands }) => (JSON.parse(commands) as RefUpdate[]).map(decodeName).map(textOf)),
  ])
  const isOthers = (update: RefUpdate) => possible.has(textOf(decodeName(update)))
  return {
    ...outcome,
    updates: updates.filter((update) => !isOthers(update)),
    unknown: [...unknown, ...updates.filter(isOthers)],
  }
}

function textOf({ ref, old, new: id }: NamedUpdate): string {
  return `${ref} ${old} ${id}`
}

/** Returns the event of a push. */
export function eventOf(
  { repository, pushedAs }: Awaited<ReturnType<typeof pushedRepository>>,
  { updates, unknown = [], unreported, interrupted, unchecked }: PushOutcome,
): AuditEvent {
  const listedUpdates = updates.slice(0, MAX_UPDATES).map(decodeName)
  const undecided = unknown.slice(0, MAX_UPDATES - listedUpdates.length).map(decodeName)
  const more = updates.length + unknown.length - listedUpdates.length - undecided.length
  const details = {
    updates: listedUpdates,
    ...(undecided.length > 0 && { unknown: undecided }),
    ...(more > 0 && { more }),
    ...(unreported && { unreported }),
    ...(interrupted && { interrupted }),
    ...(unchecked && { unchecked }),
    ...pushedAs,
  }
  return { action: 'push', repository, details }
}

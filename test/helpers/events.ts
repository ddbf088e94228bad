import assert from 'node:assert/strict'
import type { AuditEvent, AuditLine } from '../../src/store/audit/audit.ts'
import type { AuditFilter } from '../../src/store/audit/repository-events.ts'
import type { Store } from '../../src/store/store.ts'

/** Returns the events of the audit log, oldest first. */
export async function listEvents(store: Store, filter: AuditFilter = {}): Promise<AuditLine[]> {
  const lines: AuditLine[] = []
  for await (const batch of store.auditLog.list(filter)) lines.push(...batch)
  return lines
}

export interface PushEvent extends Omit<AuditLine, 'details'> {
  details: Extract<AuditEvent, { action: 'push' }>['details']
}

/** Returns the events of pushes, oldest first. */
export async function listPushes(store: Store, filter?: AuditFilter): Promise<PushEvent[]> {
  const events = await listEvents(store, filter)
  return events
    .filter(({ action }) => action === 'push')
    .map(({ details, ...event }) => {
      assert(Array.isArray(details.updates), JSON.stringify(details))
      // What the server stores for a push has this type.
      return { ...event, details: details as object as PushEvent['details'] }
    })
}

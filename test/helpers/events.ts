import type { AuditLine } from '../../src/store/audit/audit.ts'
import type { AuditFilter } from '../../src/store/audit/audit-log.ts'
import type { Store } from '../../src/store/store.ts'

/** Returns the events of the audit log, oldest first. */
export async function listEvents(store: Store, filter: AuditFilter = {}): Promise<AuditLine[]> {
  const lines: AuditLine[] = []
  for await (const batch of store.auditLog.list(filter)) lines.push(...batch)
  return lines
}

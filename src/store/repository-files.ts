import { join } from 'node:path'
import type { OwnerTrust } from '../domain/permissions.ts'

/** How `repositories.trust_owner` stores it. */
export const OWNER_TRUST = { checked: 0, trusted: 1, exempt: 2 } as const satisfies Record<OwnerTrust, number>

/**
 * Returns the folder of a repository, whether the server created it, and whether its owner is
 * trusted.
 */
export function locate(
  folder: string,
  row: { id: number; path: string | null; trust_owner: number | null },
): { path: string; managed: boolean; ownerTrust: OwnerTrust } {
  const managed = row.path === null
  return { path: repositoryPath(folder, row), managed, ownerTrust: managed ? 'trusted' : trustOf(row) }
}

function trustOf({ trust_owner }: { trust_owner: number | null }): OwnerTrust {
  if (trust_owner === OWNER_TRUST.trusted) return 'trusted'
  return trust_owner === OWNER_TRUST.exempt ? 'exempt' : 'checked'
}

/**
 * Returns the folder of a repository's files. Created ones are named by id, so that paths contain
 * no client input.
 */
export function repositoryPath(folder: string, row: { id: number; path: string | null }): string {
  return row.path ?? join(folder, `${row.id}.git`)
}

import { join } from 'node:path'

/**
 * Whether git may run although other accounts can write the configuration of a repository:
 * `trusted` if the server created it, or if an administrator trusts them; `checked` if it is
 * checked before git starts; `exempt` if it was imported before there was a rule about them.
 */
export type OwnerTrust = 'trusted' | 'checked' | 'exempt'

/**
 * Returns the folder of a repository, whether the server created it, and whether its owner is
 * trusted.
 */
export function locate(
  folder: string,
  row: { id: number; path: string | null; trust_owner: number | null },
): { path: string; managed: boolean; ownerTrust: OwnerTrust } {
  const managed = row.path === null
  const isTrusted = managed || row.trust_owner === 1
  return {
    path: repositoryPath(folder, row),
    managed,
    ownerTrust: isTrusted ? 'trusted' : row.trust_owner === 2 ? 'exempt' : 'checked',
  }
}

/**
 * Returns the folder of a repository's files. Created ones are named by id, so that paths contain
 * no client input.
 */
export function repositoryPath(folder: string, row: { id: number; path: string | null }): string {
  return row.path ?? join(folder, `${row.id}.git`)
}

/** What a user may do with a repository. Each includes those before it. */
export const PERMISSIONS = ['read', 'write', 'admin'] as const
export type Permission = (typeof PERMISSIONS)[number]

/** Returns whether a permission, null for none, includes another one. */
export function allows(held: Permission | null, needed: Permission): boolean {
  return held !== null && PERMISSIONS.indexOf(held) >= PERMISSIONS.indexOf(needed)
}

/**
 * Whether git may run although other accounts can write the configuration of a repository:
 * `trusted` if the server created it, or if an administrator trusts them; `checked` if it is
 * checked before git starts; `exempt` if it was imported before there was a rule about them.
 */
export type OwnerTrust = 'trusted' | 'checked' | 'exempt'

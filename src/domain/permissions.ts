/** What a user may do with a repository. Each includes those before it. */
export const PERMISSIONS = ['read', 'write', 'admin'] as const
export type Permission = (typeof PERMISSIONS)[number]

/** Returns whether a permission, null for none, includes another one. */
export function allows(held: Permission | null, needed: Permission): boolean {
  return held !== null && PERMISSIONS.indexOf(held) >= PERMISSIONS.indexOf(needed)
}

import type { Scope } from '../../generated/operations.ts'
import { ServiceError } from '../errors.ts'
import type { Access, RepositoryAccess } from '../store/access.ts'

/** What an operation demands of its caller. */
export interface Demand {
  access: 'read' | 'write'
  scopes: readonly Scope[]
}

/** A caller who may do what was demanded. */
export interface Caller {
  /** null: anonymous. */
  token: { id: string; userId: number } | null
  repository: RepositoryAccess
}

/**
 * Steps 3 to 6 of the order in which a request is judged (contract, part 5).
 *
 * @param anonymous the request carries no credential
 * @param now milliseconds since the epoch
 * @throws ServiceError by the first rule that does not hold
 */
export function judge(access: Access, anonymous: boolean, demand: Demand, now: number): Caller {
  const { token, repository } = access
  if (!anonymous) {
    if (token === null || isExpired(token.expiresAt, now)) throw new ServiceError('credential_unknown')
    if (!demand.scopes.every((scope) => token.scopes.includes(scope))) throw new ServiceError('scope_missing')
  }
  if (repository === null) throw new ServiceError(anonymous ? 'credential_missing' : 'repository_unknown')
  if (demand.access === 'write' && anonymous) throw new ServiceError('credential_missing')
  if (demand.access === 'write' && repository.permission !== 'write') throw new ServiceError('read_only')
  return { token, repository }
}

/** Expired when now >= expiry. @param expiresAt milliseconds since the epoch; null: never */
export function isExpired(expiresAt: number | null, now: number): boolean {
  return expiresAt !== null && now >= expiresAt
}

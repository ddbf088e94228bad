import type { Scope } from '../../generated/operations.ts'
import { allows } from '../domain/permissions.ts'
import { ServiceError } from '../errors.ts'
import type { Access } from '../store/access/access.ts'
import type { ReadableRepository } from '../store/access/readable-repositories.ts'
import type { Milliseconds } from '../store/time.ts'
import { checkToken } from '../store/token-validity.ts'

/** What an operation requires of its caller. */
export interface Requirement {
  access: 'read' | 'write'
  scopes: readonly Scope[]
  /** Whether it pushes with git. */
  push?: boolean
}

/** A caller that passed the access policy. */
export interface Caller {
  /** null for an anonymous caller. */
  token: Omit<NonNullable<Access['token']>, 'scopes' | 'expiresAt' | 'signInDue' | 'lastUsedAt'> | null
  repository: ReadableRepository
}

/**
 * Applies the access rules to a caller: steps 3 to 6 of "Order of checks" in openapi.yaml.
 *
 * @param anonymous whether the request carries no credential
 * @param now since the epoch
 * @throws ServiceError for the first rule that is broken
 */
export function applyAccessPolicy(
  access: Access,
  anonymous: boolean,
  requirement: Requirement,
  now: Milliseconds,
): Caller {
  const { token, repository } = access
  if (!anonymous) {
    checkToken(token, now)
    if (!requirement.scopes.every((scope) => token.scopes.includes(scope)))
      throw new ServiceError('scope_missing')
  }
  if (repository === null) throw new ServiceError(anonymous ? 'credential_missing' : 'repository_unknown')
  if (requirement.access === 'write') {
    if (token === null) throw new ServiceError('credential_missing')
    const { repositories, push } = token.limits
    if (repositories?.includes(repository.id) === false) throw new ServiceError('token_excludes_repository')
    if (!allows(repository.permission, 'write')) throw new ServiceError('read_only')
    if (requirement.push && !push) throw new ServiceError('token_excludes_push')
  }
  return { token, repository }
}

/**
 * The error for a name that a repository had, of which the caller may know what it is called now: with
 * the status of a missing one.
 */
export class RenamedError extends ServiceError {
  readonly repository: ReadableRepository

  constructor(
    anonymous: boolean,
    repository: ReadableRepository,
    message = `The repository is called ${repository.owner}/${repository.name} now. Use that name.`,
  ) {
    super(anonymous ? 'credential_missing' : 'repository_unknown', message)
    this.repository = repository
  }
}

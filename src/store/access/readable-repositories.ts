import type { Selectable } from 'kysely'
import type { ObjectFormat } from '../../domain/commit-id.ts'
import { isName, isOwnerName, nameKey } from '../../domain/names.ts'
import type { OwnerTrust, Permission } from '../../domain/permissions.ts'
import { createReservationReader, type Reservation } from '../../domain/reservations.ts'
import { locate } from '../repository-files.ts'
import type { Queries, Tables, Visibility } from '../tables.ts'
import { accessRules, ofCollaborator, ofMember } from './access-rules.ts'

/** A caller's view of a repository that it may read. */
export interface ReadableRepository {
  /** Never used again once it is deleted. */
  id: number
  owner: string
  name: string
  visibility: Visibility
  objectFormat: ObjectFormat
  /** Its git directory: absolute, without symbolic links. */
  path: string
  /** Whether the server created it, in its own folder. */
  managed: boolean
  ownerTrust: OwnerTrust
  /**
   * What the user has as a member of the owner or was granted, the greater of both; null: may read
   * because the repository is public. A token has at most `write`, and nothing if it is limited to
   * other repositories.
   */
  permission: Permission | null
  /** Contexts that only some users may report; null: none. */
  reservations: readonly Reservation[] | null
}

/** What a repository is made of (see `createRepositoryReader`), besides the id and the permission. */
export const repositoryColumns = [
  'repositories.owner',
  'repositories.name',
  'repositories.visibility',
  'repositories.object_format',
  'repositories.path',
  'repositories.trust_owner',
  'repositories.reporters',
] as const

const { permission, mayRead } = accessRules()

/** Returns a query of the repositories that a user, or an anonymous one, may read. */
export function repositoriesFor(db: Queries, userId: number | null) {
  return db
    .selectFrom('repositories')
    .leftJoin('users', (join) => join.on('users.id', '=', userId ?? -1).on('users.locked_at', 'is', null))
    .leftJoin('members', (join) => join.on(ofMember))
    .leftJoin('collaborators', (join) => join.on(ofCollaborator))
    .select(['repositories.id as repository_id', ...repositoryColumns, permission.as('permission')])
    .where(mayRead)
}

/** Returns the keys of a repository for `accessQuery`. Those of an invalid name match nothing. */
export function repositoryKeys(owner: string, name: string): { owner: string; name: string } {
  const isPossible = isOwnerName(owner) && isName(name)
  return isPossible ? { owner: nameKey(owner), name: nameKey(name) } : { owner: '', name: '' }
}

type RepositoryColumn =
  | 'owner'
  | 'name'
  | 'visibility'
  | 'object_format'
  | 'path'
  | 'trust_owner'
  | 'reporters'

/** `repositoryColumns` of a row that may have joined none. */
type RepositoryRow = {
  [Column in RepositoryColumn]: Selectable<Tables['repositories']>[Column] | null
} & { repository_id: number | null; permission: Permission | null }

/**
 * Creates a function that makes a repository of a row; null if the row has none.
 *
 * @param folder of the repositories that the server creates
 */
export function createRepositoryReader(folder: string) {
  const reservationsOf = createReservationReader()
  return (row: RepositoryRow): ReadableRepository | null => {
    const { repository_id: id, owner, name, visibility, object_format: objectFormat, permission } = row
    if (id === null || owner === null || name === null || visibility === null || objectFormat === null)
      return null
    const reservations = row.reporters === null ? null : reservationsOf(id, row.reporters)
    return {
      id,
      owner,
      name,
      visibility,
      objectFormat,
      ...locate(folder, { ...row, id }),
      permission,
      reservations,
    }
  }
}

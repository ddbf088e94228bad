import type { Selectable } from 'kysely'
import type { Person } from '../../domain/actors.ts'
import { nameKey } from '../../domain/names.ts'
import { allows } from '../../domain/permissions.ts'
import { Refusal } from '../../domain/refusal.ts'
import { ServiceError } from '../../errors.ts'
import type { NamedRepository } from '../audit/audit.ts'
import type { Change } from '../audit/change.ts'
import type { Queries, Tables } from '../tables.ts'
import { lockOwner } from './locked-rows.ts'
import { repositoriesFor } from './readable-repositories.ts'

/** What is to be changed, by its name. */
export interface RepositoryName {
  owner: string
  name: string
  /** If who acts has seen it before: no other repository that has the name by now is changed. */
  id?: number
}

type Row = Selectable<Tables['repositories']>

/** Returns how an event names a repository. */
export function namedAs({ id, owner, name }: { id: number; owner: string; name: string }): NamedRepository {
  return { id, name: `${owner}/${name}` }
}

/** Returns a query of the repository with a name. */
function rowsOf(db: Queries, { owner, name }: RepositoryName) {
  return db
    .selectFrom('repositories')
    .selectAll()
    .where('owner_key', '=', nameKey(owner))
    .where('name_key', '=', nameKey(name))
}

/** Returns the row of a repository by its name, to read it. */
export function findRow(db: Queries, repository: RepositoryName): Promise<Row | undefined> {
  return rowsOf(db, repository).executeTakeFirst()
}

/** Returns the same. @throws Refusal if there is none */
export async function getRow(db: Queries, repository: RepositoryName): Promise<Row> {
  return presentRow(await findRow(db, repository), repository)
}

function presentRow(row: Row | undefined, { owner, name }: RepositoryName): Row {
  if (!row) throw new Refusal(`there is no repository ${owner}/${name}`)
  return row
}

/** What those without a permission get. */
const MISSING = { admin: 'not_admin', write: 'read_only' } as const

/**
 * Returns the repository that is to be changed, after checking that who acts may administer it. Both
 * stay true until the end of the change: see `locked-rows.ts`.
 *
 * @throws ServiceError unless it is an administrator of the server, or a user with `admin`; and if a
 * user's repository is gone or has another name by now. Refusal if there is none for an
 * administrator
 */
export function administeredRepository(change: Change<Person>, repository: RepositoryName): Promise<Row> {
  return permittedRepository(change, repository, 'admin')
}

/** Does the same for who may do less. @throws as `administeredRepository` */
export async function permittedRepository(
  change: Change<Person>,
  { owner, name, id }: RepositoryName,
  needed: keyof typeof MISSING,
): Promise<Row> {
  const { db, by } = change
  await lockOwner(change, owner)
  const found = await change.locked(rowsOf(db, { owner, name })).executeTakeFirst()
  if (by.kind === 'administrator') {
    const row = presentRow(found, { owner, name })
    if (id !== undefined && row.id !== id)
      throw new Refusal(`${owner}/${name} is another repository by now. Nothing was changed`)
    return row
  }
  const access = await repositoriesFor(db, by.user.id)
    .where('repositories.id', '=', id ?? found?.id ?? -1)
    .executeTakeFirst()
  if (!access) throw new ServiceError('repository_unknown')
  if (found?.id !== access.repository_id)
    throw new ServiceError(
      'repository_unknown',
      `${owner}/${name} is called ${access.owner}/${access.name} by now. Nothing was changed.`,
    )
  if (!allows(access.permission, needed)) throw new ServiceError(MISSING[needed])
  return found
}

/** Checks the same for an owner that is locked, and for all its repositories. */
export async function checkOwnerAdmin({ db, by }: Change<Person>, ownerId: number): Promise<void> {
  if (by.kind === 'administrator') return
  const member = await db
    .selectFrom('members')
    .innerJoin('users', 'users.id', 'members.user_id')
    .select('permission')
    .where('owner_id', '=', ownerId)
    .where('user_id', '=', by.user.id)
    .where('locked_at', 'is', null)
    .executeTakeFirst()
  if (!allows(member?.permission ?? null, 'admin')) throw new ServiceError('not_admin')
}

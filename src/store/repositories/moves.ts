import type { Person } from '../../domain/actors.ts'
import { isName, isOwnerName, NAME_RULE, nameKey, OWNER_NAME_RULE } from '../../domain/names.ts'
import { Refusal } from '../../domain/refusal.ts'
import { administeredRepository, checkOwnerAdmin, type RepositoryName } from '../access/administration.ts'
import { lockOwners } from '../access/locked-rows.ts'
import type { Change } from '../audit/change.ts'
import { ensureOwners, type Owner } from '../owners/owners.ts'
import { MOVE_STEP } from '../steps.ts'
import type { Queries } from '../tables.ts'
import { nowInSeconds } from '../time.ts'
import { checkFree, checkReserved, reserve, reservedName } from './reserved-names.ts'

/** Maximum number of repositories that a message names. */
const MAX_LISTED = 10
/** Maximum number of repositories of an owner to which users can add one. */
const MAX_REPOSITORIES = 1_000

interface Name {
  owner: string
  name: string
}

/**
 * Renames a repository, or moves it to another owner. It keeps its id, and so its statuses, rules,
 * access and the tokens limited to it. The name before stays reserved.
 *
 * @throws Refusal if a name is invalid or reserved, if too many are reserved, or if a user moves it
 * to an owner with too many repositories; AlreadyExists if it is taken; as
 * `administeredRepository`, and ServiceError also for another owner
 * @returns the name since then, and whether the one before is reserved: it is not if only its case
 * differs
 */
export async function rename(
  change: Change<Person>,
  from: RepositoryName,
  to: Name,
): Promise<Name & { isReserved: boolean }> {
  checkName(to)
  const { db, by } = change
  const owners = await (by.kind === 'administrator' ? ensureOwners : lockOwners)(change, [
    from.owner,
    to.owner,
  ])
  const [oldOwner, newOwner] = [from, to].map(({ owner }) => owners.get(nameKey(owner)))
  const row = await administeredRepository(change, from)
  if (!oldOwner) throw new Refusal(`there is no repository ${from.owner}/${from.name}`)
  if (newOwner?.id !== oldOwner.id) await checkOwnerAdmin(change, newOwner?.id ?? -1)
  if (!newOwner) throw new Refusal(`there is no user or group "${to.owner}"`)

  const before = `${row.owner}/${row.name}`
  const target = { owner: newOwner.id === oldOwner.id ? row.owner : newOwner.name, name: to.name }
  const after = `${target.owner}/${target.name}`
  if (before === after) return { ...target, isReserved: false }
  const isReserved = nameKey(before) !== nameKey(after)
  if (isReserved) {
    if (by.kind !== 'administrator' && newOwner.id !== oldOwner.id) await checkCount(db, newOwner)
    await checkFree(change, newOwner, to.name, row.id)
    await checkReserved(db, oldOwner)
    await reserve(change, oldOwner, row)
  }
  await db
    .updateTable('repositories')
    .set({
      owner_id: newOwner.id,
      owner: target.owner,
      owner_key: nameKey(target.owner),
      name: target.name,
      name_key: nameKey(target.name),
    })
    .where('id', '=', row.id)
    .execute()
  const action = newOwner.id === oldOwner.id ? 'repository.renamed' : 'repository.transferred'
  const repository = { id: row.id, name: after }
  await change.record({ action, repository, details: { from: before } })
  return { ...target, isReserved }
}

/** @throws Refusal if a name of a repository is invalid */
export function checkName({ owner, name }: Name): void {
  if (!isOwnerName(owner)) throw new Refusal(`"${owner}" is not a valid owner name: ${OWNER_NAME_RULE}`)
  if (!isName(name)) throw new Refusal(`"${name}" is not a valid repository name: ${NAME_RULE}`)
}

/** @throws Refusal if an owner has too many repositories */
export async function checkCount(db: Queries, owner: Owner): Promise<void> {
  const { count } = await db
    .selectFrom('repositories')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('owner_id', '=', owner.id)
    .executeTakeFirstOrThrow()
  if (count >= MAX_REPOSITORIES)
    throw new Refusal(`"${owner.name}" has ${count} repositories; at most ${MAX_REPOSITORIES} are allowed`)
}

/**
 * Checks that an owner may get the repositories of another one.
 *
 * @param lastId only of those up to this id; default: all
 * @throws Refusal if it has repositories of the same names, which it lists, or if other repositories
 * had one of the names
 */
export async function checkMove(
  db: Queries,
  from: Owner,
  to: Owner,
  lastId = Number.MAX_SAFE_INTEGER,
): Promise<void> {
  const moving = db
    .selectFrom('repositories as moved')
    .where('moved.owner_id', '=', from.id)
    .where('moved.id', '<=', lastId)
  const takenNames = await moving
    .innerJoin('repositories as taken', 'taken.name_key', 'moved.name_key')
    .select(['taken.owner', 'taken.name'])
    .where('taken.owner_key', '=', to.name_key)
    .orderBy('taken.name_key')
    .execute()
  if (takenNames.length > 0) {
    const names = takenNames
      .slice(0, MAX_LISTED)
      .map(({ owner, name }) => `${owner}/${name}`)
      .join(', ')
    const more = takenNames.length > MAX_LISTED ? ` and ${takenNames.length - MAX_LISTED} more` : ''
    throw new Refusal(`"${to.name}" already owns ${names}${more}; delete those first. Nothing was changed`)
  }
  const reserved = await moving
    .innerJoin('reserved_names', 'reserved_names.name_key', 'moved.name_key')
    .select('moved.name')
    .where('reserved_names.owner_id', '=', to.id)
    .whereRef('reserved_names.repository_id', '<>', 'moved.id')
    .orderBy('moved.name_key')
    .limit(1)
    .executeTakeFirst()
  if (reserved) throw reservedName(to.name, reserved.name)
}

/**
 * Gives up to `MOVE_STEP` repositories of an owner to another one. Both are locked. The names before
 * stay reserved, however many they are.
 *
 * @returns their ids, and the names before and since
 * @throws Refusal as `checkMove`
 */
export async function moveRepositories(
  change: Change,
  from: Owner,
  to: Owner,
): Promise<{ id: number; from: string; to: string }[]> {
  const { db } = change
  const next = db
    .selectFrom('repositories')
    .select(['id', 'owner', 'name'])
    .where('owner_id', '=', from.id)
    .orderBy('id')
    .limit(MOVE_STEP)
  // In the order of reports, which the change of a key makes wait.
  const moves = await change.locked(next, 'update').execute()
  const lastId = moves.at(-1)?.id
  if (lastId === undefined) return []
  await checkMove(db, from, to, lastId)

  const moving = db.selectFrom('repositories').where('owner_id', '=', from.id).where('id', '<=', lastId)
  // They had these names before.
  await db
    .deleteFrom('reserved_names')
    .where('owner_id', '=', to.id)
    .where('name_key', 'in', moving.select('name_key'))
    .execute()
  await db
    .insertInto('reserved_names')
    .columns(['owner_id', 'name', 'name_key', 'repository_id', 'created_at'])
    .expression(
      moving
        .select(['owner_id', 'name', 'name_key', 'id'])
        .select(({ cast, val }) => cast<number>(val(nowInSeconds()), 'bigint').as('created_at')),
    )
    .execute()
  await db
    .updateTable('repositories')
    .set({ owner_id: to.id, owner: to.name, owner_key: to.name_key })
    .where('owner_id', '=', from.id)
    .where('id', '<=', lastId)
    .execute()
  return moves.map(({ id, owner, name }) => ({ id, from: `${owner}/${name}`, to: `${to.name}/${name}` }))
}

import { schemas } from '../../../generated/schemas.ts'
import type { NamedUser, Person } from '../../domain/actors.ts'
import { checkPattern } from '../../domain/patterns.ts'
import { Refusal } from '../../domain/refusal.ts'
import type { Reporter } from '../../domain/reported-results.ts'
import { checkReservation, type Reservation, readReservations } from '../../domain/reservations.ts'
import { listAccess } from '../access/access-list.ts'
import { administeredRepository, namedAs, type RepositoryName } from '../access/administration.ts'
import { keepUsers, keptUser } from '../access/locked-rows.ts'
import type { Change } from '../audit/change.ts'
import type { Reading } from '../engine.ts'
import type { Queries } from '../tables.ts'

/** A reservation with the users that still exist, ordered by name. */
export interface NamedReservation {
  pattern: string
  users: (NamedUser & Reporter)[]
}

/** Returns functions that manage which contexts of a repository only some users may report. */
export function createReservationStore({ kysely }: Reading) {
  return {
    /** Returns the names of the users with these ids; see `reportersOf`. */
    namesOf: (ids: readonly number[]) => namesOf(kysely, ids),

    /** Lists the reservations of a repository in the order in which they were set. */
    async list(repositoryId: number): Promise<NamedReservation[]> {
      const row = await kysely
        .selectFrom('repositories')
        .select('reporters')
        .where('id', '=', repositoryId)
        .executeTakeFirst()
      const text = row?.reporters ?? null
      const reservations = text === null ? [] : readReservations(text)
      const users = await usersOf(kysely, [...new Set(reservations.flatMap(({ users }) => users))])
      return reservations.map(({ pattern, users: ids }) => ({
        pattern,
        users: users.filter(({ id }) => ids.includes(id)),
      }))
    },

    /** Returns those of the names whose users cannot report, as they may not write or are locked. */
    async listUnable(repositoryId: number, names: readonly string[]): Promise<string[]> {
      const access = names.length === 0 ? [] : await listAccess(kysely, { repositoryIds: [repositoryId] })
      const able = access.filter(({ permission, lockedAt }) => permission !== 'read' && lockedAt === null)
      return names.filter((name) => !able.some(({ user }) => user === name))
    },

    set: setReservation,
  }
}

/**
 * Reserves contexts for users, or opens a pattern to everybody who may write.
 *
 * @param users null: no longer reserved
 * @param expected `reservationState` of the pattern before, as far as the caller knows; default: any
 * @throws Refusal for an invalid pattern, a user who is gone, another reservation than expected, or
 * as `checkReservation`; ServiceError as `administeredRepository`
 */
async function setReservation(
  change: Change<Person>,
  repository: RepositoryName,
  pattern: string,
  users: readonly NamedUser[] | null,
  expected?: string,
): Promise<void> {
  const { db } = change
  checkPattern('pattern', pattern, schemas.ContextPattern)
  const ids = users && [...new Set(users.map(({ id }) => id))]
  if (ids?.length === 0) throw new Refusal('name at least one user')
  const kept = await keepUsers(change, ids ?? [])
  for (const id of ids ?? []) keptUser(kept, id)
  const row = await administeredRepository(change, repository)
  const all = row.reporters === null ? [] : readReservations(row.reporters)
  const others = all.filter((other) => other.pattern !== pattern)
  const former = all.find((other) => other.pattern === pattern)
  const from = former ? await namesOf(db, former.users) : null
  if (expected !== undefined && JSON.stringify(from) !== expected)
    throw new Refusal('somebody else has changed who may report this by now. Nothing was changed')
  if (!former && ids === null) throw new Refusal(`the pattern "${pattern}" is not reserved`)
  const added = ids && { pattern, users: ids }
  if (added) checkReservation(others, added)
  const next: readonly Reservation[] = added ? [...others, added] : others
  await db
    .updateTable('repositories')
    .set({ reporters: next.length > 0 ? JSON.stringify(next) : null })
    .where('id', '=', row.id)
    .execute()
  await change.record({
    action: 'repository.reporters',
    repository: namedAs(row),
    details: { pattern, users: ids && (await namesOf(db, ids)), from },
  })
}

/** Returns a text that is another one for each reservation of a pattern. */
export function reservationState(reservation: NamedReservation | null): string {
  return JSON.stringify(reservation?.users.map(({ name }) => name) ?? null)
}

/** Returns users by their ids, ordered by name; deleted ones are left out. */
async function usersOf(db: Queries, ids: readonly number[]): Promise<(NamedUser & Reporter)[]> {
  if (ids.length === 0) return []
  const users = db.selectFrom('users').select(['id', 'name', 'created_at as createdAt'])
  return users.where('id', 'in', ids).orderBy('name_key').execute()
}

async function namesOf(db: Queries, ids: readonly number[]): Promise<string[]> {
  return (await usersOf(db, ids)).map(({ name }) => name)
}

import { schemas } from '../../../generated/schemas.ts'
import { checkPattern } from '../../domain/patterns.ts'
import { Refusal } from '../../domain/refusal.ts'
import { checkReservation, type Reservation, readReservations } from '../../domain/reservations.ts'
import { administeredRepository, namedAs, type RepositoryName } from '../access/administration.ts'
import type { NamedUser, Person } from '../audit/audit.ts'
import type { Change } from '../audit/change.ts'
import type { Engine } from '../engine.ts'
import type { Queries } from '../tables.ts'

/** A reservation with the users that still exist, ordered by name. */
export interface NamedReservation {
  pattern: string
  users: NamedUser[]
}

/** Returns functions that manage which contexts of a repository only some users may report. */
export function createReservationStore({ kysely }: Engine) {
  /** Returns the names of users by their ids, ordered; those of deleted users are left out. */
  const usersOf = async (db: Queries, ids: readonly number[]): Promise<NamedUser[]> =>
    ids.length === 0
      ? []
      : db
          .selectFrom('users')
          .select(['id', 'name'])
          .where('id', 'in', [...ids])
          .orderBy('name_key')
          .execute()

  return {
    /** Returns the names of the users with these ids; see `reportersOf`. */
    namesOf: async (ids: readonly number[]) => (await usersOf(kysely, ids)).map(({ name }) => name),

    /** Lists the reservations of a repository in the order in which they were set. */
    async list(repositoryId: number): Promise<NamedReservation[]> {
      const row = await kysely
        .selectFrom('repositories')
        .select('reporters')
        .where('id', '=', repositoryId)
        .executeTakeFirst()
      const named: NamedReservation[] = []
      for (const { pattern, users } of row?.reporters ? readReservations(row.reporters) : [])
        named.push({ pattern, users: await usersOf(kysely, users) })
      return named
    },

    /**
     * Reserves contexts for users, or opens a pattern to everybody who may write.
     *
     * @param userNames null: no longer reserved
     * @throws Refusal for an invalid pattern, an unknown user, or as `checkReservation`;
     * ServiceError as `administeredRepository`
     */
    async set(
      change: Change<Person>,
      repository: RepositoryName,
      pattern: string,
      userNames: readonly string[] | null,
    ): Promise<void> {
      const { db } = change
      checkPattern('pattern', pattern, schemas.ContextPattern)
      const row = await administeredRepository(change, repository)
      // Locks the row: two patterns that are set at once are both kept.
      const { reporters } = await db
        .updateTable('repositories')
        .set((eb) => ({ reporters: eb.ref('reporters') }))
        .where('id', '=', row.id)
        .returning('reporters')
        .executeTakeFirstOrThrow()
      const all = reporters ? readReservations(reporters) : []
      const others = all.filter((other) => other.pattern !== pattern)
      const former = all.find((other) => other.pattern === pattern)
      if (!former && userNames === null) throw new Refusal(`the pattern "${pattern}" is not reserved`)
      const added = userNames && { pattern, users: await idsOf(db, userNames) }
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
        details: {
          pattern,
          users: added && (await usersOf(db, added.users)).map(({ name }) => name),
          from: former ? (await usersOf(db, former.users)).map(({ name }) => name) : null,
        },
      })
    },
  }
}

/** Returns the ids of users, each once. @throws Refusal if one does not exist, or is a group */
async function idsOf(db: Queries, names: readonly string[]): Promise<number[]> {
  const ids = new Set<number>()
  for (const name of names) ids.add((await userByName(db, name)).id)
  if (ids.size === 0) throw new Refusal('name at least one user')
  return [...ids]
}

async function userByName(db: Queries, name: string): Promise<NamedUser> {
  const user = await db
    .selectFrom('users')
    .select(['id', 'name'])
    .where('name_key', '=', name.toLowerCase())
    .executeTakeFirst()
  if (!user) throw new Refusal(`there is no user "${name}". A group cannot be named`)
  return user
}

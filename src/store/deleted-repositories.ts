import { sql } from 'kysely'
import type { Queries } from './tables.ts'

/*
 * Deleting a repository takes one change, with its event. What refers to it may be millions of rows,
 * which the server removes afterwards:
 *
 *   present ─── deleted, with the event ──▶ deleted ─── rows in steps, files, its own row ──▶ gone
 *
 * In between nobody finds it, also not a server of the version before: it is private, has no grants,
 * no owner and no rules, and a name that nobody can ask for. Its former name is free, and no report
 * is stored for it. A kill in between changes nothing: whoever comes next continues.
 */

/** The owner of deleted repositories, by name. No name has a slash. */
export const DELETED = '/'

/** A condition of a query of `repositories`. */
export const isPresent = sql<boolean>`repositories.owner_key <> ${sql.lit(DELETED)}`

/** Returns the ids of deleted repositories, oldest first. */
export async function deletedIds(db: Queries): Promise<number[]> {
  const rows = await db
    .selectFrom('repositories')
    .select('id')
    .where('owner_key', '=', DELETED)
    .orderBy('id')
    .execute()
  return rows.map(({ id }) => id)
}

import { sql } from 'kysely'
import { nameKey } from '../../domain/names.ts'
import { allows, PERMISSIONS } from '../../domain/permissions.ts'
import type { Engine } from '../engine.ts'
import {
  accessQuery,
  accessRules,
  type ReadableRepository,
  repositoriesFor,
  repositoryKeys,
  repositoryOf,
} from './access.ts'

const { permission } = accessRules()

/**
 * Returns functions that find the repositories that a signed-in user or an anonymous user may read.
 */
export function createRepositoryListing(engine: Engine, folder: string) {
  const { kysely } = engine
  const query = accessQuery(engine)
  const visibleTo = (userId: number | null) => repositoriesFor(kysely, userId)

  return {
    /**
     * Returns a repository if the user may read it.
     *
     * @param userId null for an anonymous user
     * @param owner as sent, like `name`; an invalid name counts as a missing repository
     */
    async find(userId: number | null, owner: string, name: string): Promise<ReadableRepository | null> {
      const params = { userId: userId ?? 0, ...repositoryKeys(owner, name) }
      const [row] = await engine.read(query, { address: '', hash: '', ...params })
      return row ? repositoryOf(row, folder) : null
    },

    /** Returns up to `count` repositories that the user may write to, newest first. */
    async writable(userId: number, count: number): Promise<ReadableRepository[]> {
      const rows = await visibleTo(userId)
        .where(
          permission,
          'in',
          PERMISSIONS.filter((held) => allows(held, 'write')),
        )
        .orderBy('repositories.id', 'desc')
        .limit(count)
        .execute()
      return rows.flatMap((row) => repositoryOf(row, folder) ?? [])
    },

    /**
     * Returns a page of repositories ordered by name, and whether they have branch rules.
     *
     * @param after the last repository of the previous page
     */
    async list(
      userId: number | null,
      count: number,
      after?: { owner: string; name: string },
    ): Promise<(ReadableRepository & { hasRules: boolean })[]> {
      let query = visibleTo(userId)
        .select(({ exists, selectFrom }) =>
          exists(
            selectFrom('branch_rules').select('id').whereRef('repository_id', '=', 'repositories.id'),
          ).as('hasRules'),
        )
        .orderBy('repositories.owner_key')
        .orderBy('repositories.name_key')
        .limit(count)
      if (after) {
        const [owner, name] = [nameKey(after.owner), nameKey(after.name)]
        query = query.where(
          sql<boolean>`(repositories.owner_key, repositories.name_key) > (${owner}, ${name})`,
        )
      }
      const rows = await query.execute()
      // SQLite answers with a number.
      return rows.flatMap((row) => {
        const repository = repositoryOf(row, folder)
        return repository ? [{ ...repository, hasRules: Boolean(row.hasRules) }] : []
      })
    },
  }
}

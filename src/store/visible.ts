import { sql } from 'kysely'
import type { Engine } from './engine.ts'
import { nameKey } from './names.ts'
import { repositoryPath } from './repositories.ts'
import type { Permission, Visibility } from './tables.ts'

/** A repository as one visitor sees it. */
export interface VisibleRepository {
  id: number
  owner: string
  name: string
  visibility: Visibility
  objectFormat: 'sha1' | 'sha256'
  path: string
  /** null: sees it only because it is public. */
  permission: Permission | null
}

/** Repositories that a signed-in user, or an anonymous visitor, can see. */
export function visibleStore({ kysely }: Engine, folder: string) {
  const visibleTo = (userId: number | null) =>
    kysely
      .selectFrom('repositories')
      .leftJoin('users', (join) => join.on('users.id', '=', userId ?? -1))
      .leftJoin('collaborators', (join) =>
        join
          .onRef('collaborators.repository_id', '=', 'repositories.id')
          .onRef('collaborators.user_id', '=', 'users.id'),
      )
      .select([
        'repositories.id',
        'repositories.owner',
        'repositories.name',
        'repositories.visibility',
        'repositories.object_format as objectFormat',
        'repositories.path',
      ])
      .select(
        sql<Permission | null>`case when users.name_key = repositories.owner_key then 'write'
          else collaborators.permission end`.as('permission'),
      )
      .where((eb) =>
        eb.or([
          eb('repositories.visibility', '=', 'public'),
          eb('collaborators.permission', 'is not', null),
          eb('users.name_key', '=', eb.ref('repositories.owner_key')),
        ]),
      )

  const located = <Row extends { id: number; path: string | null }>(row: Row) => ({
    ...row,
    path: repositoryPath(folder, row),
  })

  return {
    /** @param userId null: an anonymous visitor */
    async find(userId: number | null, owner: string, name: string): Promise<VisibleRepository | undefined> {
      const row = await visibleTo(userId)
        .where('repositories.owner_key', '=', nameKey(owner))
        .where('repositories.name_key', '=', nameKey(name))
        .executeTakeFirst()
      return row && located(row)
    },

    /** Some that the user can write to, the newest first. */
    async writable(userId: number, count: number): Promise<VisibleRepository[]> {
      const rows = await visibleTo(userId)
        .where((eb) =>
          eb.or([
            eb('collaborators.permission', '=', 'write'),
            eb('users.name_key', '=', eb.ref('repositories.owner_key')),
          ]),
        )
        .orderBy('repositories.id', 'desc')
        .limit(count)
        .execute()
      return rows.map(located)
    },

    /** In the order of their names. @param after the last one of the page before */
    async list(
      userId: number | null,
      count: number,
      after?: { owner: string; name: string },
    ): Promise<VisibleRepository[]> {
      let query = visibleTo(userId)
        .orderBy('repositories.owner_key')
        .orderBy('repositories.name_key')
        .limit(count)
      if (after) {
        const [owner, name] = [nameKey(after.owner), nameKey(after.name)]
        query = query.where((eb) =>
          eb.or([
            eb('repositories.owner_key', '>', owner),
            eb.and([eb('repositories.owner_key', '=', owner), eb('repositories.name_key', '>', name)]),
          ]),
        )
      }
      return (await query.execute()).map(located)
    },
  }
}

import { sql } from 'kysely'
import { accessRules } from './access.ts'
import type { Engine } from './engine.ts'
import { nameKey } from './names.ts'
import { prepare } from './prepared.ts'
import { repositoryPath } from './repositories.ts'
import type { Permission, Visibility } from './tables.ts'

/** A repository as shown to a user or an anonymous visitor. */
export interface ListedRepository {
  id: number
  owner: string
  name: string
  visibility: Visibility
  objectFormat: 'sha1' | 'sha256'
  path: string
  /** Whether its files are in the server's own folder. */
  managed: boolean
  /** null if it is visible only because it is public. */
  permission: Permission | null
}

const { mayRead, mayReadNamed, permission } = accessRules()

type Row = Omit<ListedRepository, 'path' | 'managed'> & { path: string | null }

/** Returns whether a left join found a row: then all columns are set, otherwise none. */
function isFound(row: { [Column in keyof Row]: Row[Column] | null }): row is Row {
  return row.id !== null
}

const columns = [
  'repositories.id',
  'repositories.owner',
  'repositories.name',
  'repositories.visibility',
  'repositories.object_format as objectFormat',
  'repositories.path',
] as const

/** Returns functions that find the repositories that a signed-in user or an anonymous visitor may read. */
export function repositoryListing(engine: Engine, folder: string) {
  const { kysely, dialect } = engine
  const integer = sql.raw(dialect.integer)
  const visibleTo = (userId: number | null) =>
    kysely
      .selectFrom('repositories')
      .leftJoin('users', (join) => join.on('users.id', '=', userId ?? -1))
      .leftJoin('collaborators', (join) =>
        join
          .onRef('collaborators.repository_id', '=', 'repositories.id')
          .onRef('collaborators.user_id', '=', 'users.id'),
      )
      .select([...columns, permission.as('permission')])
      .where(mayRead)

  // Takes the same steps for a missing repository as for one that the visitor may not read: see `accessStore`.
  let standIn = 1
  const find = prepare<{ userId: number; owner: string; name: string; standIn: number }>()((p) =>
    kysely
      .selectFrom(
        sql<{
          user_id: number
          owner: string
          name: string
          stand_in: number
        }>`(select cast(${p.userId} as ${integer}) as user_id, cast(${p.owner} as text) as owner,
          cast(${p.name} as text) as name, cast(${p.standIn} as ${integer}) as stand_in)`.as('asked'),
      )
      .leftJoin('users', 'users.id', 'asked.user_id')
      .leftJoin('repositories as named', (join) =>
        join.onRef('named.owner_key', '=', 'asked.owner').onRef('named.name_key', '=', 'asked.name'),
      )
      .leftJoin('collaborators', (join) =>
        join
          .on('collaborators.repository_id', '=', (eb) => eb.fn.coalesce('named.id', 'asked.stand_in'))
          .onRef('collaborators.user_id', '=', 'asked.user_id'),
      )
      .leftJoin('repositories', (join) =>
        join
          .on('repositories.id', '=', (eb) => eb.fn.coalesce('named.id', 'asked.stand_in'))
          .on(mayReadNamed),
      )
      .select([...columns, permission.as('permission')]),
  )

  const located = (row: Row): ListedRepository => ({
    ...row,
    path: repositoryPath(folder, row),
    managed: row.path === null,
  })

  return {
    /** Returns a repository if the user may read it. @param userId null for an anonymous visitor */
    async find(userId: number | null, owner: string, name: string): Promise<ListedRepository | undefined> {
      const params = { userId: userId ?? 0, owner: nameKey(owner), name: nameKey(name), standIn }
      const [row] = await engine.read(find, params)
      if (row === undefined || !isFound(row)) return undefined
      standIn = row.id
      return located(row)
    },

    /** Returns up to `count` repositories that the user may write to, newest first. */
    async writable(userId: number, count: number): Promise<ListedRepository[]> {
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

    /** Returns a page of repositories ordered by name. @param after the last repository of the previous page */
    async list(
      userId: number | null,
      count: number,
      after?: { owner: string; name: string },
    ): Promise<ListedRepository[]> {
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

import { sql } from 'kysely'
import { isName, nameKey } from '../../domain/names.ts'
import { allows, PERMISSIONS } from '../../domain/permissions.ts'
import type { Reading } from '../engine.ts'
import { prepare } from '../prepared.ts'
import { accessQuery } from './access.ts'
import { accessRules } from './access-rules.ts'
import {
  createRepositoryReader,
  type ReadableRepository,
  repositoriesFor,
  repositoryKeys,
} from './readable-repositories.ts'

const { permission } = accessRules()

/** Events among which pushes are looked for: some milliseconds. */
const EVENTS = 2_000

/** A repository of a list. */
export type ListedRepository = ReadableRepository & { hasRules: boolean }

/**
 * Returns functions that find the repositories that a signed-in user or an anonymous user may read.
 */
export function createRepositoryListing(engine: Reading, folder: string) {
  const { kysely } = engine
  const query = accessQuery(engine)
  const renamedQuery = prepare<{ userId: number; owner: string; name: string }>()((p) =>
    repositoriesFor(kysely, p.userId)
      .innerJoin('reserved_names', 'reserved_names.repository_id', 'repositories.id')
      .innerJoin('owners as former', 'former.id', 'reserved_names.owner_id')
      .where('former.name_key', '=', p.owner)
      .where('reserved_names.name_key', '=', p.name),
  )
  const repositoryOf = createRepositoryReader(folder)
  const visibleTo = (userId: number | null) =>
    repositoriesFor(kysely, userId).select((eb) => {
      const rules = eb.selectFrom('branch_rules').whereRef('repository_id', '=', 'repositories.id')
      // For a long list PostgreSQL would scan the whole table to know what `exists`.
      return eb(rules.select('id').limit(1), 'is not', null).as('hasRules')
    })
  const toList = (rows: Awaited<ReturnType<ReturnType<typeof visibleTo>['execute']>>): ListedRepository[] =>
    rows.flatMap((row) => {
      const repository = repositoryOf(row)
      // SQLite answers with a number.
      return repository ? [{ ...repository, hasRules: Boolean(row.hasRules) }] : []
    })

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
      return row ? repositoryOf(row) : null
    },

    /**
     * Returns the repository that had a name before it was renamed, if the user may read it; see
     * `find`.
     */
    async findRenamed(
      userId: number | null,
      owner: string,
      name: string,
    ): Promise<ReadableRepository | null> {
      const params = { userId: userId ?? 0, ...repositoryKeys(owner, name) }
      const [row] = await engine.read(renamedQuery, params, {
        key: `renamed ${params.owner}/${params.name}`,
        variant: `${params.userId}`,
      })
      return row ? repositoryOf(row) : null
    },

    /** Returns up to `count` repositories that the user may write to, newest first. */
    async writable(userId: number, count: number): Promise<ListedRepository[]> {
      const rows = await visibleTo(userId)
        .where(
          permission,
          'in',
          PERMISSIONS.filter((held) => allows(held, 'write')),
        )
        .orderBy('repositories.id', 'desc')
        .limit(count)
        .execute()
      return toList(rows)
    },

    /** Returns those of repositories that the user may read, in the order of the ids. */
    async of(userId: number | null, ids: readonly number[]): Promise<ListedRepository[]> {
      if (ids.length === 0) return []
      const repositories = toList(await visibleTo(userId).where('repositories.id', 'in', ids).execute())
      const places = new Map(ids.map((id, index) => [id, index]))
      const place = ({ id }: ListedRepository) => places.get(id) ?? ids.length
      return repositories.toSorted((one, other) => place(one) - place(other))
    },

    /**
     * Returns the ids of repositories that were pushed to lately, the last one first.
     *
     * @param events among which pushes are looked for
     */
    async pushedLately(events = EVENTS): Promise<number[]> {
      const newest = kysely
        .selectFrom('audit_events')
        .select(['action', 'repository_id'])
        .orderBy('time', 'desc')
        .orderBy('id', 'desc')
        .limit(events)
      const pushes = await kysely
        .selectFrom(newest.as('newest'))
        .select('repository_id')
        .where('action', '=', 'push')
        .execute()
      return [...new Set(pushes.flatMap(({ repository_id: id }) => (id === null ? [] : [id])))]
    },

    /**
     * Returns a page of repositories ordered by name.
     *
     * @param after the last repository of the previous page
     * @param owner of all repositories; default: any
     */
    async list(
      userId: number | null,
      count: number,
      {
        after,
        owner,
      }: { after?: { owner: string; name: string } | undefined; owner?: string | undefined } = {},
    ): Promise<ListedRepository[]> {
      let query = visibleTo(userId)
        .orderBy('repositories.owner_key')
        .orderBy('repositories.name_key')
        .limit(count)
      if (owner !== undefined) query = query.where('repositories.owner_key', '=', nameKey(owner))
      if (after) {
        const [owner, name] = [nameKey(after.owner), nameKey(after.name)]
        query = query.where(
          sql<boolean>`(repositories.owner_key, repositories.name_key) > (${owner}, ${name})`,
        )
      }
      return toList(await query.execute())
    },

    /**
     * Returns up to `count` repositories by a part of OWNER/NAME: first those whose name begins with it,
     * or else their owner's, each by a range of an index. With a slash, that owner is exact. All names
     * are looked through only if these are too few, and with a slash, if there are none.
     */
    async search(userId: number | null, text: string, count: number): Promise<ListedRepository[]> {
      const [first = '', second] = nameKey(text).split('/')
      if (![first, second || 'x'].every(isName)) return []
      const startingWith = (column: 'owner_key' | 'name_key', start: string) =>
        visibleTo(userId)
          .where(`repositories.${column}`, '>=', start)
          // Comes after all characters of names.
          .where(`repositories.${column}`, '<', `${start}~`)
          .limit(count)
      const byOwner = (query: ReturnType<typeof startingWith>) =>
        query.orderBy('repositories.owner_key').orderBy('repositories.name_key')
      const contains = (column: string, part: string) =>
        sql<boolean>`${sql.raw(column)} like ${`%${part.replaceAll('_', '\\_')}%`} escape '\\'`
      const queries =
        second === undefined
          ? [
              startingWith('name_key', first)
                .orderBy('repositories.name_key')
                .orderBy('repositories.owner_key'),
              byOwner(startingWith('owner_key', first)),
            ]
          : [
              byOwner(startingWith('name_key', second).where('repositories.owner_key', '=', first)),
              byOwner(
                visibleTo(userId)
                  .where('repositories.owner_key', '=', first)
                  .where(contains('repositories.name_key', second))
                  .limit(count),
              ),
            ]
      const fullName = `repositories.owner_key || '/' || repositories.name_key`
      const all = visibleTo(userId)
        .where(contains(fullName, nameKey(text)))
        .limit(count)

      const found = new Map<number, ListedRepository>()
      const read = async (query: ReturnType<typeof byOwner>) => {
        for (const repository of toList(await query.execute())) found.set(repository.id, repository)
      }
      for (const query of queries) if (found.size < count) await read(query)
      if (found.size < (second === undefined ? count : 1)) await read(byOwner(all))
      return [...found.values()].slice(0, count)
    },
  }
}

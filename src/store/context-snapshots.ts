import { sql } from 'kysely'
import type { Engine } from './engine.ts'
import { prepare } from './prepared.ts'
import type { CommitKey } from './status-summaries.ts'

/** The contexts of a commit with their states, as JSON. */
export interface ContextSnapshot extends CommitKey {
  contents: string | null
}

/** Returns functions that read the contexts of waited commits and detect changes by other writers. */
export function contextSnapshots(engine: Engine) {
  const { kysely } = engine
  const { elements, array, aggregate } = engine.dialect.json
  const snapshots = prepare<{ commits: string }>()((p) =>
    kysely.selectFrom(sql<{ value: unknown }>`${sql.raw(elements)}(${p.commits})`.as('asked')).select([
      sql<number>`cast(asked.value ->> 0 as bigint)`.as('repositoryId'),
      sql<string>`asked.value ->> 1`.as('sha'),
      (eb) =>
        eb
          .selectFrom((db) =>
            // A subquery in the order of the index. Within the aggregate, `order by` would sort once more.
            db
              .selectFrom('statuses')
              .select(['context', 'state'])
              .whereRef('repository_id', '=', sql`cast(asked.value ->> 0 as bigint)`)
              .whereRef('sha', '=', sql`asked.value ->> 1`)
              .orderBy('context')
              .as('contexts'),
          )
          .select(
            sql<string | null>`cast(${sql.raw(aggregate)}(${sql.raw(array)}(context, state)) as text)`.as(
              'contents',
            ),
          )
          .as('contents'),
    ]),
  )

  return {
    /**
     * Returns the contexts of each commit with their states, as JSON that is equal while they are: an array of pairs,
     * ordered by the code points of the context; null for none. One statement for all commits.
     */
    snapshots(commits: readonly CommitKey[]): Promise<ContextSnapshot[]> {
      const asked = commits.map(({ repositoryId, sha }) => [repositoryId, sha])
      return engine.read(snapshots, { commits: JSON.stringify(asked) })
    },

    /** As `foreignChanges` of the engine; undefined if it cannot tell. */
    foreignChanges: (): unknown => engine.foreignChanges?.(),
  }
}

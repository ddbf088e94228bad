import { type RawBuilder, sql } from 'kysely'
import type { Engine } from './engine.ts'
import { prepare } from './prepared.ts'
import type { StatusState } from './tables.ts'

/** Commits of a matrix at most. */
export const MATRIX_COMMITS = 30
/** Contexts of a matrix at most. */
const MATRIX_CONTEXTS = 50

/** The status of one context of one commit. */
export interface MatrixCell {
  state: StatusState
  targetUrl: string | null
  /** Seconds since the epoch. */
  updatedAt: number
}

/** A context, and its status for each commit, in the order of the commits. */
export interface MatrixColumn {
  context: string
  /** Whether its newest completed status is a failure or an error. */
  failing: boolean
  cells: (MatrixCell | undefined)[]
}

export interface CheckMatrix {
  /** Failing contexts first, then pending ones, then passed ones; each ordered by code points. */
  columns: MatrixColumn[]
  /** Number of contexts that are left out. */
  omitted: number
}

/** The commits of the matrix, `''` for none. The query has a place for each. */
type Params = { repositoryId: number } & Record<`sha${number}`, string>

/** Ranks of a column. A check that was started again counts as what it was before. */
const FAILED = 0
const PENDING = 1
const PASSED = 2

/** Returns a function that compares the statuses of commits. */
export function checkMatrix(engine: Engine) {
  const { kysely, dialect } = engine
  const integer = sql.raw(dialect.integer)
  const query = prepare<Params>()((p) => {
    const rows = Array.from(
      { length: MATRIX_COMMITS },
      (_, position) => sql`(cast(${p[`sha${position}`]} as text), ${sql.lit(position)})`,
    )
    // The newest completed status of a context decides: its position and its rank are one number.
    const rank = sql`coalesce(min(case when statuses.state in ('failure', 'error') then position * 10 + ${sql.lit(FAILED)}
      when statuses.state = 'success' then position * 10 + ${sql.lit(PASSED)} end) % 10, ${sql.lit(PENDING)})`
    // SQLite does not reorder cross joins: it searches the statuses of each commit instead of those of the repository.
    const cells: RawBuilder<Row> = sql`(
      with listed (sha, position) as (values ${sql.join(rows)}),
      ranked as (
        select statuses.context, ${rank} as rank, count(*) over () as total
        from listed cross join statuses
        where statuses.repository_id = cast(${p.repositoryId} as ${integer}) and statuses.sha = listed.sha
        group by statuses.context
        order by rank, statuses.context
        limit ${sql.lit(MATRIX_CONTEXTS)}
      )
      select ranked.context, ranked.rank, ranked.total, listed.position, statuses.state,
        statuses.target_url, statuses.updated_at
      from ranked cross join listed cross join statuses
      where statuses.repository_id = cast(${p.repositoryId} as ${integer}) and statuses.sha = listed.sha
        and statuses.context = ranked.context
      order by ranked.rank, ranked.context, listed.position
    )`
    return kysely.selectFrom(cells.as('cells')).selectAll()
  })

  /**
   * Returns the statuses of commits by context. Reads at most `MATRIX_CONTEXTS` of them for each commit.
   *
   * @param shas the newest first; those after `MATRIX_COMMITS` are ignored
   */
  return async (repositoryId: number, shas: readonly string[]): Promise<CheckMatrix> => {
    const places = Array.from({ length: MATRIX_COMMITS }, (_, index) => [`sha${index}`, shas[index] ?? ''])
    const rows = await engine.read(query, { repositoryId, ...Object.fromEntries(places) })
    const columns: MatrixColumn[] = []
    for (const { context, rank, position, state, target_url, updated_at } of rows) {
      let column = columns.at(-1)
      if (column?.context !== context) {
        column = { context, failing: rank === FAILED, cells: [] }
        columns.push(column)
      }
      column.cells[position] = { state, targetUrl: target_url, updatedAt: updated_at }
    }
    return { columns, omitted: (rows[0]?.total ?? 0) - columns.length }
  }
}

interface Row {
  context: string
  rank: number
  total: number
  position: number
  state: StatusState
  target_url: string | null
  updated_at: number
}

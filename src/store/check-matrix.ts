import { type RawBuilder, sql } from 'kysely'
import type { Engine } from './engine.ts'
import { prepare } from './prepared.ts'
import { statesOf } from './states.ts'
import type { StatusState } from './tables.ts'

/** Maximum number of commits in a matrix. */
export const MATRIX_COMMITS = 30
/** Maximum number of contexts in a matrix. */
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

/** Contexts of one commit that are ranked in one statement where it blocks the event loop. */
const SLICE = 50

/** The commits of a matrix, `''` for none. A query has a parameter for each. */
type Commits = { repositoryId: number } & Record<`sha${number}`, string>

type Contexts = Record<`context${number}`, string>

/** Ranks of a column. A check that was started again counts as what it was before. */
const FAILED = 0
const PENDING = 1
const PASSED = 2

/** Returns a function that compares the statuses of commits. */
export function checkMatrix(engine: Engine) {
  const { kysely, dialect } = engine
  const integer = sql.raw(dialect.integer)
  const failed = sql.join(statesOf('failure').map((state) => sql.lit(state)))
  const passed = sql.join(statesOf('success').map((state) => sql.lit(state)))
  const shaOf = (p: Commits, position: number) => sql`cast(${p[`sha${position}`]} as text)`
  const listed = (p: Commits) => {
    const rows = numbersTo(MATRIX_COMMITS).map(
      (position) => sql`(${shaOf(p, position)}, ${sql.lit(position)})`,
    )
    return sql`listed (sha, position) as (values ${sql.join(rows)})`
  }
  const ofCommit = (p: Commits) =>
    sql`statuses.repository_id = cast(${p.repositoryId} as ${integer}) and statuses.sha = listed.sha`
  /**
   * Joins statuses to the rows before, row by row, by their key. A planner with outdated statistics could compare all
   * statuses with all rows: SQLite does not reorder cross joins, PostgreSQL does not move conditions across an offset.
   */
  const crossJoinStatuses = (condition: RawBuilder<unknown>) =>
    engine.remote
      ? sql`cross join lateral (select * from statuses where ${condition} offset 0) as statuses`
      : sql`cross join statuses on ${condition}`

  /** Returns the last context of a slice: no commit has more than `SLICE` contexts from `after` to it. null: the rest is a slice. */
  const sliceEnd = prepare<Commits & { after: string }>()((p) => {
    const rows: RawBuilder<{ end: string | null }> = sql`(
      with ${listed(p)}
      select min((
        select statuses.context from statuses where ${ofCommit(p)} and statuses.context > ${p.after}
        order by statuses.context limit 1 offset ${sql.lit(SLICE - 1)}
      )) as "end" from listed
    )`
    return kysely.selectFrom(rows.as('ends')).selectAll()
  })

  /** Returns a query that ranks the contexts of a range and returns the first ones. */
  const rankQuery = <Range extends Commits & { after: string }>(upTo: (p: Range) => RawBuilder<unknown>) =>
    prepare<Range>()((p) => {
      // The newest completed status of a context decides: its position and its rank are one number.
      const rank = sql`coalesce(min(case when statuses.state in (${failed}) then position * 10 + ${sql.lit(FAILED)}
        when statuses.state in (${passed}) then position * 10 + ${sql.lit(PASSED)} end) % 10, ${sql.lit(PENDING)})`
      const rows: RawBuilder<RankedContext> = sql`(
        with ${listed(p)}
        select statuses.context, ${rank} as rank, count(*) over () as total
        from listed ${crossJoinStatuses(sql`${ofCommit(p)} and statuses.context > ${p.after} ${upTo(p)}`)}
        group by statuses.context
        order by rank, statuses.context
        limit ${sql.lit(MATRIX_CONTEXTS)}
      )`
      return kysely.selectFrom(rows.as('ranked')).selectAll()
    })
  const rankRest = rankQuery<Commits & { after: string }>(() => sql``)
  const rankSlice = rankQuery<Commits & { after: string; end: string }>(
    (p) => sql`and statuses.context <= ${p.end}`,
  )

  const cells = prepare<Commits & Contexts>()((p) => {
    const contexts = numbersTo(MATRIX_CONTEXTS).map((n) => sql`(cast(${p[`context${n}`]} as text))`)
    const rows: RawBuilder<CellRow> = sql`(
      with ${listed(p)}, ranked (context) as (values ${sql.join(contexts)})
      select statuses.context, listed.position, statuses.state, statuses.target_url, statuses.updated_at
      from ranked cross join listed ${crossJoinStatuses(sql`${ofCommit(p)} and statuses.context = ranked.context`)}
    )`
    return kysely.selectFrom(rows.as('cells')).selectAll()
  })

  /**
   * Ranks the contexts of commits and counts them. Where each statement is a round trip, there is one. Elsewhere a statement
   * for all would block the event loop, so there is one for each range of contexts.
   */
  async function rank(commits: Commits) {
    let first: RankedContext[] = []
    let total = 0
    let after = ''
    for (;;) {
      const [slice] = engine.remote ? [] : await engine.read(sliceEnd, { ...commits, after })
      const end = slice?.end ?? null
      const ranked =
        end === null
          ? await engine.read(rankRest, { ...commits, after })
          : await engine.read(rankSlice, { ...commits, after, end })
      // Sorting is stable, so the contexts of a rank stay in their order.
      first = [...first, ...ranked].sort((a, b) => a.rank - b.rank).slice(0, MATRIX_CONTEXTS)
      total += ranked[0]?.total ?? 0
      if (end === null) return { first, total }
      after = end
    }
  }

  /**
   * Returns the statuses of commits by context. Reads at most `MATRIX_CONTEXTS` of them for each commit.
   *
   * @param shas the newest first; those after `MATRIX_COMMITS` are ignored
   */
  return async (repositoryId: number, shas: readonly string[]): Promise<CheckMatrix> => {
    const commits: Commits = { repositoryId, ...named('sha', shas, MATRIX_COMMITS) }
    const { first, total } = await rank(commits)
    const columns = first.map(
      ({ context, rank }): MatrixColumn => ({ context, failing: rank === FAILED, cells: [] }),
    )
    const byContext = new Map(columns.map((column) => [column.context, column]))
    const contexts = named('context', [...byContext.keys()], MATRIX_CONTEXTS)
    for (const cell of await engine.read(cells, { ...commits, ...contexts })) {
      const { context, position, state, target_url: targetUrl, updated_at: updatedAt } = cell
      const column = byContext.get(context)
      if (column) column.cells[position] = { state, targetUrl, updatedAt }
    }
    return { columns, omitted: total - columns.length }
  }
}

/** Returns the values by numbered names, `''` for each that is missing. */
function named(name: string, values: readonly string[], count: number): Record<string, string> {
  return Object.fromEntries(numbersTo(count).map((n) => [`${name}${n}`, values[n] ?? '']))
}

function numbersTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index)
}

interface RankedContext {
  context: string
  rank: number
  /** Contexts in the range, with those that are not returned. */
  total: number
}

interface CellRow {
  context: string
  position: number
  state: StatusState
  target_url: string | null
  updated_at: number
}

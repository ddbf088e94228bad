import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import { COMBINED, type CombinedState, type StatusState } from '../../domain/states.ts'
import type { Engine } from '../engine.ts'
import { prepare } from '../prepared.ts'

/** Maximum number of commits in a matrix. */
export const MATRIX_COMMITS = 30

/** The status of one context of one commit. */
export interface MatrixCell {
  state: StatusState
  target_url: string | null
  /** Seconds since the epoch. */
  updated_at: number
}

/** A context, and its status for each commit, in the order of the commits. */
export interface MatrixColumn {
  context: string
  /** Whether its newest completed status is a failure or an error. */
  failing: boolean
  cells: (MatrixCell | undefined)[]
}

/** Commits of one statement: few, since on SQLite it blocks the event loop. */
const AT_ONCE = 3
/** The order of columns. */
const RANKS: readonly CombinedState[] = ['failure', 'pending', 'success']

/** Returns functions that compare the statuses of commits. */
export function createCheckMatrix(engine: Engine) {
  const cells = () =>
    engine.kysely.selectFrom('statuses').select(['context', 'state', 'target_url', 'updated_at'])
  const ofCommits = prepare<{ repositoryId: number; sha0: string; sha1: string; sha2: string }>()((p) =>
    cells()
      // Not the id: there may be 30,000 rows, and to receive their ids takes a fifth of the time.
      .select(({ eb }) =>
        eb
          .case()
          .when('sha', '=', p.sha0)
          .then(sql.lit(0))
          .when('sha', '=', p.sha1)
          .then(sql.lit(1))
          .else(sql.lit(2))
          .end()
          .as('position'),
      )
      .where('repository_id', '=', p.repositoryId)
      .where('sha', 'in', [p.sha0, p.sha1, p.sha2]),
  )

  return {
    /**
     * Returns the statuses of commits by context: failing contexts first, then pending ones, then passed ones; each ordered
     * by code points.
     *
     * @param shas the newest first; those after `MATRIX_COMMITS` are ignored
     */
    async columns(repositoryId: number, shas: readonly string[]): Promise<MatrixColumn[]> {
      const commits = shas.slice(0, MATRIX_COMMITS)
      const all = new Map<string, { context: string; cells: MatrixColumn['cells'] }>()
      for (let from = 0; from < commits.length; from += AT_ONCE) {
        // All commits together may have 30,000 statuses, so other requests are served in between.
        await setImmediate()
        const [sha0 = '', sha1 = '', sha2 = ''] = commits.slice(from, from + AT_ONCE)
        for (const row of await engine.read(ofCommits, { repositoryId, sha0, sha1, sha2 })) {
          const column = all.get(row.context) ?? { context: row.context, cells: [] }
          column.cells[from + row.position] = row
          all.set(row.context, column)
        }
      }
      const ranked = Map.groupBy(all.values(), rankOf)
      return RANKS.flatMap((rank) =>
        byCodePoints(ranked.get(rank) ?? []).map((column) => ({ ...column, failing: rank === 'failure' })),
      )
    },

    /**
     * Returns the statuses of a few contexts for each commit, in the order of the commits. Contexts without any are left out.
     *
     * @param contexts and `shas`: not empty
     */
    async histories(
      repositoryId: number,
      shas: readonly string[],
      contexts: readonly string[],
    ): Promise<Map<string, MatrixColumn['cells']>> {
      const rows = await cells()
        .select('sha')
        .where('repository_id', '=', repositoryId)
        .where('sha', 'in', shas)
        .where('context', 'in', contexts)
        .execute()
      const columns = Map.groupBy(rows, ({ context }) => context)
      const cellOf = (column: typeof rows, sha: string) => column.find((row) => row.sha === sha)
      return new Map(
        [...columns].map(([context, column]) => [context, shas.map((sha) => cellOf(column, sha))]),
      )
    },
  }
}

/** The newest completed status of a context decides: a check that was started again counts as what it was before. */
function rankOf({ cells }: Pick<MatrixColumn, 'cells'>): CombinedState {
  const completed = cells.find((cell) => cell !== undefined && cell.state !== 'pending')
  return completed ? COMBINED[completed.state] : 'pending'
}

/** Sorts by the code points of `context`, which is the order of its bytes in UTF-8. */
function byCodePoints<Column extends { context: string }>(columns: Column[]): Column[] {
  return columns
    .map((column) => ({ column, bytes: Buffer.from(column.context) }))
    .sort((a, b) => a.bytes.compare(b.bytes))
    .map(({ column }) => column)
}

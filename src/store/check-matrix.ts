import { setImmediate } from 'node:timers/promises'
import type { Engine } from './engine.ts'
import { prepare } from './prepared.ts'
import { COMBINED, type CombinedState } from './states.ts'
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

/** Commits of one statement: few, since on SQLite it blocks the event loop. */
const AT_ONCE = 3
/** The order of columns. */
const RANKS: readonly CombinedState[] = ['failure', 'pending', 'success']

/** Maximum number of contexts whose history is read at once. */
const HISTORY_CONTEXTS = 10

/** Returns a function that reads the history of a few contexts. */
export function contextHistories(engine: Engine) {
  const shaNames = Array.from({ length: MATRIX_COMMITS }, (_, n) => `sha${n}` as const)
  const contextNames = Array.from({ length: HISTORY_CONTEXTS }, (_, n) => `context${n}` as const)
  type Texts = Record<(typeof shaNames | typeof contextNames)[number], string>
  const ofContexts = prepare<Texts & { repositoryId: number }>()((p) =>
    engine.kysely
      .selectFrom('statuses')
      .select(['sha', 'context', 'state', 'target_url as targetUrl', 'updated_at as updatedAt'])
      .where('repository_id', '=', p.repositoryId)
      .where(
        'sha',
        'in',
        shaNames.map((name) => p[name] ?? ''),
      )
      .where(
        'context',
        'in',
        contextNames.map((name) => p[name] ?? ''),
      ),
  )

  /**
   * Returns the statuses of contexts for each commit, in the order of the commits. Contexts without any are left out.
   *
   * @param shas at most `MATRIX_COMMITS`, and `contexts` at most `HISTORY_CONTEXTS`; further ones are ignored
   */
  return async (
    repositoryId: number,
    shas: readonly string[],
    contexts: readonly string[],
  ): Promise<Map<string, MatrixColumn['cells']>> => {
    const texts = [
      ...shaNames.map((name, n) => [name, shas[n] ?? '']),
      ...contextNames.map((name, n) => [name, contexts[n] ?? '']),
    ]
    const cellsOf = new Map<string, MatrixColumn['cells']>()
    // The names are the keys of the parameters.
    const params = { repositoryId, ...(Object.fromEntries(texts) as Texts) }
    for (const row of await engine.read(ofContexts, params)) {
      const cells = cellsOf.get(row.context) ?? []
      cells[shas.indexOf(row.sha)] = row
      cellsOf.set(row.context, cells)
    }
    return cellsOf
  }
}

/** Returns a function that compares the statuses of commits. */
export function checkMatrix(engine: Engine) {
  const ofCommits = prepare<{ repositoryId: number; sha0: string; sha1: string; sha2: string }>()((p) =>
    engine.kysely
      .selectFrom('statuses')
      .select(['sha', 'context', 'state', 'target_url as targetUrl', 'updated_at as updatedAt'])
      .where('repository_id', '=', p.repositoryId)
      .where('sha', 'in', [p.sha0, p.sha1, p.sha2]),
  )

  /**
   * Returns the statuses of commits by context.
   *
   * @param shas the newest first; those after `MATRIX_COMMITS` are ignored
   */
  return async (repositoryId: number, shas: readonly string[]): Promise<CheckMatrix> => {
    const commits = shas.slice(0, MATRIX_COMMITS)
    const all = new Map<string, { context: string; cells: MatrixColumn['cells'] }>()
    for (let from = 0; from < commits.length; from += AT_ONCE) {
      // All commits together may have 30,000 statuses, so other requests are served in between.
      await setImmediate()
      const [sha0 = '', sha1 = '', sha2 = ''] = commits.slice(from, from + AT_ONCE)
      for (const row of await engine.read(ofCommits, { repositoryId, sha0, sha1, sha2 })) {
        const column = all.get(row.context) ?? { context: row.context, cells: [] }
        column.cells[commits.indexOf(row.sha, from)] = row
        all.set(row.context, column)
      }
    }
    const ranked = Map.groupBy(all.values(), rankOf)
    const columns = RANKS.flatMap((rank) => byCodePoints(ranked.get(rank) ?? [])).slice(0, MATRIX_CONTEXTS)
    return {
      columns: columns.map((column) => ({ ...column, failing: rankOf(column) === 'failure' })),
      omitted: all.size - columns.length,
    }
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

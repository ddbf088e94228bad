import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import { COMBINED, type CombinedState, type StatusState } from '../../domain/states.ts'
import type { Reading } from '../engine.ts'
import { prepare } from '../prepared.ts'
import type { StatusSummaries } from './status-summaries.ts'
import { repositoryCacheKey } from './statuses.ts'

/** Maximum number of commits in a matrix. */
export const MATRIX_COMMITS = 30

/** A context, and its state for each commit, in the order of the commits. */
export interface MatrixColumn {
  context: string
  /** Whether its newest completed status is a failure or an error. */
  failing: boolean
  cells: ({ state: StatusState } | undefined)[]
}

/** The status of one context of one commit, as a table shows it. */
export interface LinkedCell {
  state: StatusState
  target_url: string | null
  /** Seconds since the epoch. */
  updated_at: number
}

/**
 * Commits, and statuses of some contexts, that are read at once: few, since on SQLite that blocks
 * the event loop.
 */
const COMMITS_AT_ONCE = 3
const STATUSES_AT_ONCE = 3_000
/** The order of columns. */
const RANKS: readonly CombinedState[] = ['failure', 'pending', 'success']

export type CheckMatrix = ReturnType<typeof createCheckMatrix>

/** Returns functions that compare the statuses of commits. */
export function createCheckMatrix(
  { dialect, kysely, read }: Reading,
  { listStates }: Pick<StatusSummaries, 'listStates'>,
) {
  const ofCommits = (p: { repositoryId: number; shas: string }) =>
    kysely
      .selectFrom('statuses')
      .select('sha')
      .where('repository_id', '=', p.repositoryId)
      .where(sql<boolean>`sha ${dialect.isOneOf(p.shas)}`)
  const statesOfCommits = dialect.ofCommits?.(kysely).states
  const ofContexts = prepare<{ repositoryId: number; shas: string; contexts: string }>()((p) =>
    ofCommits(p)
      .select(['context', 'state', 'target_url', 'updated_at'])
      .where(sql<boolean>`context ${dialect.isOneOf(p.contexts)}`),
  )

  /**
   * Returns a function that reads the states of one of the commits. Where each statement is a round
   * trip, there is one for all.
   */
  async function readerOf(repositoryId: number, shas: readonly string[]) {
    if (!statesOfCommits) return (sha: string) => listStates({ repositoryId, sha })
    const rows = await read(statesOfCommits, { repositoryId, shas: JSON.stringify(shas) })
    const rowsByCommit = new Map(rows.map((row) => [row.sha, row]))
    return (sha: string) => {
      const { contexts = [], states = [] } = rowsByCommit.get(sha) ?? {}
      return states.map((state, index) => ({ context: contexts[index] ?? '', state }))
    }
  }

  return {
    /**
     * Returns the states of commits by context: failing contexts first, then pending ones, then
     * passed ones; each ordered by code points.
     *
     * @param shas the newest first; those after `MATRIX_COMMITS` are ignored
     */
    async listColumns(repositoryId: number, shas: readonly string[]): Promise<MatrixColumn[]> {
      const all = new Map<string, { context: string; cells: MatrixColumn['cells'] }>()
      const commits = shas.slice(0, MATRIX_COMMITS)
      const readStates = await readerOf(repositoryId, commits)
      for (const [index, sha] of commits.entries()) {
        // All commits together may have 30,000 statuses, so other requests are served in between.
        if (index % COMMITS_AT_ONCE === 0) await setImmediate()
        for (const { context, state } of await readStates(sha)) {
          const column = all.get(context) ?? { context, cells: [] }
          column.cells[index] = { state }
          all.set(context, column)
        }
      }
      const ranked = Map.groupBy(all.values(), rankOf)
      return RANKS.flatMap((rank) =>
        byCodePoints(ranked.get(rank) ?? []).map((column) => ({ ...column, failing: rank === 'failure' })),
      )
    },

    /**
     * Returns the statuses of contexts for each commit, in the order of the commits. Contexts
     * without any are left out.
     *
     * @param contexts few: a page of them
     */
    async listHistories(
      repositoryId: number,
      shas: readonly string[],
      contexts: readonly string[],
    ): Promise<Map<string, (LinkedCell | undefined)[]>> {
      const columns = new Map<string, (LinkedCell | undefined)[]>()
      const positions = new Map(shas.map((sha, position) => [sha, position]))
      const atOnce = Math.max(1, Math.floor(STATUSES_AT_ONCE / contexts.length))
      const contextList = JSON.stringify(contexts)
      for (let from = 0; from < shas.length; from += atOnce) {
        await setImmediate()
        const commits = JSON.stringify(shas.slice(from, from + atOnce))
        const wantedCells = { repositoryId, shas: commits, contexts: contextList }
        const cache = { key: repositoryCacheKey(repositoryId), variant: commits + contextList }
        for (const row of await read(ofContexts, wantedCells, cache)) {
          const cells = columns.get(row.context) ?? Array<undefined>(shas.length)
          cells[positions.get(row.sha) ?? 0] = row
          columns.set(row.context, cells)
        }
      }
      return columns
    },
  }
}

/**
 * The newest completed status of a context decides: a check that was started again counts as what
 * it was before.
 */
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

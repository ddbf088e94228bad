import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import { ADMINISTRATOR, type Administrator } from '../domain/actors.ts'
import type { PruneReason } from '../store/audit/audit.ts'
import type { Change } from '../store/audit/change.ts'
import type { Engine } from '../store/engine.ts'
import type { Store } from '../store/store.ts'

/** Commits of one query. */
const BATCH = 500

/** A commit with statuses. */
interface ReportedCommit {
  sha: string
  /** Time of its latest report, in seconds since the epoch. */
  latest: number
}

/** Yields the commits of a repository that have statuses, in batches, ordered by id. */
export async function* reportedCommits(
  { kysely }: Engine,
  repositoryId: number,
): AsyncGenerator<ReportedCommit[]> {
  for (let after = ''; ; ) {
    const commits: ReportedCommit[] = await kysely
      .selectFrom('statuses')
      .select(['sha', (eb) => eb.fn.max('updated_at').as('latest')])
      .where('repository_id', '=', repositoryId)
      .where('sha', '>', after)
      .groupBy('sha')
      .orderBy('sha')
      .limit(BATCH)
      .execute()
    const last = commits.at(-1)
    if (!last) return
    yield commits
    after = last.sha
  }
}

/**
 * Returns a function that removes statuses in one change for each call, and counts what all of them
 * removed in one event: of a run that is killed, too, it says what was removed.
 */
export function createPruning({ audit }: Pick<Store, 'audit'>, reason: PruneReason) {
  let event: number | undefined
  const removed = { commits: 0, statuses: 0 }

  /**
   * Removes all statuses of those commits that were not reported on since `before` (seconds since
   * the epoch), including reports that arrive while it runs. Then pauses for as long as it took, so
   * that other writers get their turn.
   *
   * @returns the number of removed statuses
   */
  return async (repositoryId: number, shas: readonly string[], before: number): Promise<number> => {
    if (shas.length === 0) return 0
    const began = performance.now()
    const step = await audit.transaction(ADMINISTRATOR, async (change) => {
      const rows = await removeCommits(change, repositoryId, shas, before)
      if (rows.length === 0) return { commits: 0, statuses: 0, event }
      const commits = new Set(rows.map(({ sha }) => sha)).size
      const details = {
        ...reason,
        commits: removed.commits + commits,
        statuses: removed.statuses + rows.length,
      }
      const soFar = { action: 'statuses.pruned', object: 'statuses', details } as const
      return { commits, statuses: rows.length, event: await change.recordSoFar(event, soFar) }
    })
    // Not before the commit.
    event = step.event
    removed.commits += step.commits
    removed.statuses += step.statuses
    await setTimeout(performance.now() - began)
    return step.statuses
  }
}

/** @returns the commit of each status that was removed */
function removeCommits(
  { db }: Change<Administrator>,
  repositoryId: number,
  shas: readonly string[],
  before: number,
): Promise<{ sha: string }[]> {
  return (
    db
      .deleteFrom('statuses')
      .where('repository_id', '=', repositoryId)
      .where('sha', 'in', shas)
      // Also checks the row itself: PostgreSQL re-evaluates the condition only for a row that was
      // updated concurrently.
      .where('updated_at', '<', before)
      .where(({ not, exists, selectFrom }) =>
        not(
          exists(
            selectFrom('statuses as later')
              .select(sql<number>`1`.as('one'))
              .whereRef('later.repository_id', '=', 'statuses.repository_id')
              .whereRef('later.sha', '=', 'statuses.sha')
              .where('later.updated_at', '>=', before),
          ),
        ),
      )
      .returning('sha')
      .execute()
  )
}

/**
 * Removes the statuses of every commit that was not reported on since `before` (seconds since the
 * epoch). A commit keeps either all of its statuses or none, so its combined state does not change.
 *
 * @param onCommits receives the number of commits checked and of statuses removed so far
 * @param dryRun counts the statuses instead of removing them
 * @returns both numbers
 */
export async function pruneStatuses(
  store: Store,
  before: number,
  onCommits: (commits: number, removed: number) => void,
  dryRun = false,
): Promise<{ checked: number; removed: number }> {
  const { engine } = store
  const prune = createPruning(store, { before: new Date(before * 1000).toISOString() })
  const repositories = await engine.kysely.selectFrom('repositories').select('id').orderBy('id').execute()
  let [checked, removed] = [0, 0]
  for (const { id } of repositories) {
    for await (const commits of reportedCommits(engine, id)) {
      const old = commits.filter(({ latest }) => latest < before).map(({ sha }) => sha)
      removed += await (dryRun ? countStatuses(engine, id, old) : prune(id, old, before))
      checked += commits.length
      onCommits(checked, removed)
    }
  }
  return { checked, removed }
}

async function countStatuses(
  { kysely }: Engine,
  repositoryId: number,
  shas: readonly string[],
): Promise<number> {
  if (shas.length === 0) return 0
  const { statuses } = await kysely
    .selectFrom('statuses')
    .select((eb) => eb.fn.countAll<number>().as('statuses'))
    .where('repository_id', '=', repositoryId)
    .where('sha', 'in', shas)
    .executeTakeFirstOrThrow()
  return statuses
}

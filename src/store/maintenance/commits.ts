import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Engine } from '../engine.ts'

/** Commits looked at in one statement. */
const BATCH = 500

/** A commit that something has been reported on. */
interface ReportedCommit {
  sha: string
  /** Of its latest report, in seconds since the epoch. */
  latest: number
}

/** The reported commits of a repository, in batches in the order of their ids. */
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
 * Removes all statuses of commits, unless something was reported on the commit at or after `before` (seconds since the
 * epoch), however late that came in. Then pauses for as long as it took: what others want to write is not held up.
 *
 * @returns how many statuses were removed
 */
export async function removeCommits(
  { kysely }: Engine,
  repositoryId: number,
  shas: readonly string[],
  before: number,
): Promise<number> {
  if (shas.length === 0) return 0
  const began = performance.now()
  const { numDeletedRows } = await kysely
    .deleteFrom('statuses')
    .where('repository_id', '=', repositoryId)
    .where('sha', 'in', shas)
    // Of the row itself too: PostgreSQL looks again at a row that is reported on at this moment, and at that row alone.
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
    .executeTakeFirstOrThrow()
  await setTimeout(performance.now() - began)
  return Number(numDeletedRows)
}

/**
 * Removes the statuses of every commit on which nothing has been reported since `before` (seconds since the epoch). A
 * commit keeps all of its statuses or none, so that its combined state never changes by this.
 *
 * @param onCommits told of the commits looked at and the statuses removed so far
 */
export async function pruneStatuses(
  engine: Engine,
  before: number,
  onCommits: (commits: number, removed: number) => void,
): Promise<void> {
  const repositories = await engine.kysely.selectFrom('repositories').select('id').orderBy('id').execute()
  let [looked, removed] = [0, 0]
  for (const { id } of repositories) {
    for await (const commits of reportedCommits(engine, id)) {
      const old = commits.filter(({ latest }) => latest < before).map(({ sha }) => sha)
      removed += await removeCommits(engine, id, old, before)
      looked += commits.length
      onCommits(looked, removed)
    }
  }
}

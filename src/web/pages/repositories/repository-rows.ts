import type { FastifyRequest } from 'fastify'
import { failingSince } from '../../../domain/failing-since.ts'
import { ExpectedError, insteadOf, ServiceError } from '../../../errors.ts'
import { GitTimeout, RepositoryUnavailable } from '../../../git/errors.ts'
import type { Commit } from '../../../git/history/log-reader.ts'
import { readDefaultBranch } from '../../../git/refs/head.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import { NO_STATUSES } from '../../../store/statuses/status-summaries.ts'
import { QueueFull } from '../../../util/fair-queue.ts'
import { gitClient } from '../../parts/find-repository.ts'
import type { PageContext } from '../../parts/page-context.ts'
import type { Pages } from '../../parts/pages.ts'
import { stateOfSummary } from '../../statuses/commit-row.ts'
import { type BranchVerdict, verdictsOn } from '../../statuses/verdicts.ts'
import type { Candidate, Condition } from './ranking.ts'
import type { Problem, RepositoryRow } from './repositories-view.ts'

/** Milliseconds that the page waits for git. The rest is ready when the page is reloaded. */
const TIME_LIMIT = 3_000
/** Rows that say since which commit they fail. */
const SINCE = 30

/** The commit of a repository's HEAD, or why there is none. */
export type Head = { repository: Candidate } & ({ commit: Commit } | { problem: Problem })

/** The newest commits of a repository whose newest one failed. */
type Histories = ReadonlyMap<RepositoryRow, readonly Commit[]>

/** Returns functions that read the rows of a page: what git knows, the statuses, and since when they fail. */
export function createRowReader({ store, headLog, commitLog }: PageContext, pages: Pages) {
  return { readHead, readSummaries, readHistories, readSince }

  /** Reads the commit of HEAD. Stops waiting for git at `late`; git goes on. */
  async function readHead(
    request: FastifyRequest,
    repository: Candidate,
    late: Promise<'slow'>,
  ): Promise<Head> {
    const reading = headLog.newest(repository, gitClient(request)).then(
      ([commit]) => commit ?? ('empty' as const),
      (error: unknown) => {
        if (error instanceof QueueFull || error instanceof GitTimeout) return 'slow' as const
        if (!(error instanceof RepositoryUnavailable)) throw error
        pages.logError(request, new ServiceError('unavailable', undefined, { cause: error }))
        return 'unavailable' as const
      },
    )
    // Avoids an unhandled rejection if it fails later.
    reading.catch(() => {})
    const head = await Promise.race([reading, late])
    return typeof head === 'string' ? { repository, problem: head } : { repository, commit: head }
  }

  /** Reads what the rows show of the commits of HEAD. */
  async function readSummaries(heads: readonly Head[]): Promise<(RepositoryRow & Head)[]> {
    const commits = heads.flatMap((head) =>
      'commit' in head ? [{ repositoryId: head.repository.id, sha: head.commit.sha }] : [],
    )
    const summaries = (await store.summaries.list(commits)).values()
    const rows: (RepositoryRow & Head)[] = []
    for (const head of heads) {
      if ('problem' in head) {
        rows.push(head)
        continue
      }
      const { repository, commit } = head
      const summary = summaries.next().value ?? NO_STATUSES
      const verdict = repository.hasRules ? await readVerdict(repository, commit.sha) : undefined
      rows.push({ repository, commit, summary, verdict })
    }
    return rows
  }

  /** Reads the histories of the first rows that failed, as `readHead`. They are those of the pages of the commits. */
  async function readHistories(
    request: FastifyRequest,
    rows: readonly RepositoryRow[],
    late: Promise<'slow'>,
  ): Promise<Histories> {
    const histories = new Map<RepositoryRow, readonly Commit[]>()
    const failed = rows.flatMap((row) => ('commit' in row && row.summary.failed.length > 0 ? [row] : []))
    const read = async (row: (typeof failed)[number]) => {
      const reading = commitLog
        .history(row.repository, { first: row.commit.sha }, gitClient(request))
        .catch(insteadOf(ExpectedError, null))
      reading.catch(() => {})
      const history = await Promise.race([reading, late])
      if (history !== null && history !== 'slow') histories.set(row, history.commits)
    }
    await Promise.all(failed.slice(0, SINCE).map(read))
    return histories
  }

  /** Finds out since which commit the checks fail that a row names. */
  async function readSince<Row extends RepositoryRow>(row: Row, histories: Histories): Promise<Row> {
    const commits = histories.get(row)
    if (!commits || !('commit' in row)) return row
    const contexts = row.summary.failed.map(({ context }) => context)
    const shas = commits.map(({ sha }) => sha)
    const columns = await store.matrix.listHistories(row.repository.id, shas, contexts)
    const [oldest] = [...columns.values()]
      .map((cells) => ({ cells, ...failingSince(cells) }))
      .sort((one, other) => other.first - one.first)
    const [commit, cell] = oldest ? [commits[oldest.first], oldest.cells[oldest.first]] : []
    if (!oldest || !commit || !cell) return row
    const isOlder = oldest.neverPassed && oldest.length > 1
    return { ...row, since: { commit, failedAt: cell.updated_at, isOlder } }
  }

  /** Returns the verdict for the default branch; undefined if it has no rules. */
  async function readVerdict(
    { id, path }: ReadableRepository,
    sha: string,
  ): Promise<BranchVerdict | undefined> {
    const defaultBranch = await readDefaultBranch(path)
    const reportedStates = await store.summaries.listStates({ repositoryId: id, sha })
    return verdictsOn(sha, await store.rules.load(id), [], { defaultBranch }, reportedStates)[0]
  }
}

/** Resolves when a page that was requested now no longer waits for git. */
export function timeLimit(): Promise<'slow'> {
  return new Promise((resolve) => setTimeout(resolve, TIME_LIMIT, 'slow').unref())
}

/** Returns what decides the place of a row. */
export function conditionOf(row: RepositoryRow): Condition {
  if ('problem' in row) return row.problem === 'empty' ? 'empty' : row.problem === 'slow' ? 'other' : 'broken'
  return stateOfSummary(row.summary) === 'failure' ? 'broken' : 'other'
}

import type { FastifyRequest } from 'fastify'
import { ServiceError } from '../../../errors.ts'
import { GitTimeout, RepositoryUnavailable } from '../../../git/errors.ts'
import type { Commit } from '../../../git/history/log-reader.ts'
import { QueueFull } from '../../../schedule/fair-queue.ts'
import { NO_STATUSES } from '../../../store/statuses/status-summaries.ts'
import { ExpectedError, insteadOf } from '../../../util/expected-errors.ts'
import { numberOf } from '../../../util/memoize.ts'
import { gitClient } from '../../finding/find-repository.ts'
import type { PageFiles } from '../../routing/open-pages.ts'
import type { PageContext } from '../../routing/page-context.ts'
import type { Pages } from '../../routing/pages.ts'
import type { Broken } from '../../statuses/broken.ts'
import { type SummarizedCommit, stateBeside } from '../../statuses/commit-row.ts'
import { type BranchVerdict, headVerdict } from '../../statuses/verdicts.ts'
import { type Candidate, type Condition, conditionOfState } from './ranking.ts'
import type { Problem, RepositoryRow } from './repositories-view.ts'

/** Milliseconds that the page waits for git. The rest is ready when the page is reloaded. */
const TIME_LIMIT = 3_000

/** The branch of a repository's HEAD and its commit, or why there is none. */
export type Head = Versioned & { repository: Candidate } & (
    | { branch: string | null; commit: Commit }
    | { problem: Problem }
  )

interface Versioned {
  /** The number of what was read of the repository: the same one until its files change. */
  version?: number
}

/** What a row shows, without who broke it. */
export type SummarizedRow = Versioned & { repository: Candidate } & (
    | (SummarizedCommit & { branch: string | null; verdict: BranchVerdict | undefined })
    | { problem: Problem }
  )

/** Returns functions that read the rows of a page: what git knows, the statuses, and who broke them. */
export function createRowReader({ store, headLog, breakages, pageQueue }: PageContext, pages: Pages) {
  return { readHead, readSummaries, readBroken, filesOf }

  /** Reads the commit of HEAD. Stops waiting for git at `late`; git goes on. */
  async function readHead(
    request: FastifyRequest,
    repository: Candidate,
    late: Promise<'slow'>,
  ): Promise<Head> {
    const reading = headLog.head(repository, gitClient(request)).then(
      (head) => {
        const { branch, commits } = head
        const [commit] = commits
        return { version: numberOf(head), ...(commit ? { branch, commit } : { problem: 'empty' as const }) }
      },
      (error: unknown) => {
        if (error instanceof QueueFull || error instanceof GitTimeout) return { problem: 'slow' as const }
        if (!(error instanceof RepositoryUnavailable)) throw error
        pages.logError(request, new ServiceError('unavailable', undefined, { cause: error }))
        return { problem: 'unavailable' as const }
      },
    )
    // Avoids an unhandled rejection if it fails later.
    reading.catch(() => {})
    const head = await Promise.race([reading, late])
    return { repository, ...(head === 'slow' ? { problem: head } : head) }
  }

  /** Returns of which files rows were made; null if those of one could not be read. */
  function filesOf(heads: readonly Head[]): PageFiles | null {
    const versions = heads.flatMap(({ version }) => version ?? [])
    if (versions.length < heads.length) return null
    return { version: versions.join(' '), read: readerOf(heads.map(({ repository: { path } }) => path)) }
  }

  /** Returns a function of its own, which keeps no rows in memory. */
  function readerOf(paths: readonly string[]): PageFiles['read'] {
    return async () => {
      const heads = await Promise.all(paths.map((path) => headLog.knownHead({ path })))
      return heads.map((head) => head && numberOf(head)).join(' ')
    }
  }

  /** Reads what the rows show of the commits of HEAD. */
  async function readSummaries(heads: readonly Head[]): Promise<SummarizedRow[]> {
    const commits = heads.flatMap((head) =>
      'commit' in head ? [{ repositoryId: head.repository.id, sha: head.commit.sha }] : [],
    )
    const summaries = (await store.summaries.list(commits)).values()
    const rows: SummarizedRow[] = []
    for (const head of heads) {
      if ('problem' in head) {
        rows.push(head)
        continue
      }
      const { repository, branch, commit } = head
      const summary = summaries.next().value ?? NO_STATUSES
      const tip = { repositoryId: repository.id, sha: commit.sha }
      const verdict = repository.hasRules ? await headVerdict(store, tip, branch) : undefined
      rows.push({ ...head, summary, verdict })
    }
    return rows
  }

  /**
   * Reads who broke the rows that failed, or run again. Stops waiting for git at `late`; then, and where
   * git cannot tell, it is not complete.
   */
  async function readBroken(
    request: FastifyRequest,
    rows: readonly SummarizedRow[],
    late: Promise<'slow'>,
  ): Promise<{ broken: ReadonlyMap<SummarizedRow, Broken>; isComplete: boolean }> {
    const client = gitClient(request)
    const broken = new Map<SummarizedRow, Broken>()
    const failed = await filterBroken(rows)
    let isComplete = true
    if (failed.length === 0) return { broken, isComplete }
    const waitFor = async <T>(reading: Promise<T>) => {
      const read = reading.catch(insteadOf(ExpectedError, undefined))
      // Avoids an unhandled rejection if it fails later.
      read.catch(() => {})
      const value = await Promise.race([read, late])
      isComplete &&= value !== undefined && value !== 'slow'
      return value === 'slow' ? undefined : value
    }
    const commits = await Promise.all(
      failed.map(({ repository, branch, commit: { sha }, summary }) =>
        waitFor(breakages.commitsToSearch(repository, { branch, sha }, summary, client)),
      ),
    )
    // Where each statement is a round trip, these become one.
    const found = await pageQueue.render(request, () =>
      Promise.all(
        failed.map((row, index) =>
          breakages.findLongest(row.repository.id, commits[index] ?? [], row.summary),
        ),
      ),
    )
    await Promise.all(
      failed.map(async (row, index) => {
        const breakage = found[index]
        const suspects = breakage && (await waitFor(breakages.suspects(row.repository, breakage, client)))
        if (breakage && suspects) broken.set(row, { ...breakage, suspects })
      }),
    )
    return { broken, isComplete }
  }

  /** Returns the rows whose branches may be broken. */
  async function filterBroken(rows: readonly SummarizedRow[]) {
    const committed = rows.flatMap((row) => ('commit' in row ? [row] : []))
    const tips = committed.map(({ repository: { id }, summary: { counts } }) => ({
      repositoryId: id,
      counts,
    }))
    const isOpen = await breakages.mayBeBroken(tips)
    return committed.filter((_, index) => isOpen[index])
  }
}

/** Resolves when a page that was requested now no longer waits for git. */
export function timeLimit(): Promise<'slow'> {
  return new Promise((resolve) => setTimeout(resolve, TIME_LIMIT, 'slow').unref())
}

/** Returns the condition of what a row shows. */
export function conditionOf(row: RepositoryRow): Condition {
  if ('problem' in row) return row.problem === 'empty' ? 'empty' : 'other'
  return conditionOfState(stateBeside(row.verdict ? [row.verdict] : [], row.summary))
}

/** Returns what decides the place of a row: one that cannot be opened is as urgent as one that fails. */
export function rankOf(row: RepositoryRow): Condition {
  return 'problem' in row && row.problem === 'unavailable' ? 'broken' : conditionOf(row)
}

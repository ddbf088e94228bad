import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type FailingSince, failingSince } from '../domain/failing-since.ts'
import { COMBINED, combinedCounts, type StatusState } from '../domain/states.ts'
import type { CommitLog } from '../git/history/log.ts'
import type { Commit } from '../git/history/log-reader.ts'
import type { RepositoryFiles } from '../git/opened-repository.ts'
import type { FairQueue, QueueClient } from '../schedule/fair-queue.ts'
import type { LinkedCell } from '../store/statuses/check-matrix.ts'
import type { StatusSummary } from '../store/statuses/status-summaries.ts'
import type { Store } from '../store/store.ts'
import { entriesUpTo } from '../util/memory.ts'
import { BranchCommits, type Position, UNREPORTED } from './branch-commits.ts'

/*
 * Who broke a check of a branch, from the commits that the branch was at (see `FormerTips`):
 *
 *   newest ──────────────────────────────────────────────────────▶ oldest
 *    fail   ?   fail   error   fail   ?   error   ?   pass   fail   pass
 *                              since  └─ unchecked ─┘  lastPassed
 *
 * Whoever broke it wrote a commit that `since` contains and `lastPassed` does not: `since` itself, one
 * that was not checked, or one that either of them merged. Nothing that a branch merged was its newest
 * commit, so the results of these commits do not narrow this down: one that failed may contain
 * a failure that the branch never had.
 */

/** Since when a check of a branch fails. */
export interface Breakage {
  context: string
  /** The oldest commit of the failures that lead up to now. */
  since: string
  /** Its state there: an error only if it is the newest result, and then nobody has broken it. */
  state: StatusState
  /** When it failed there, in seconds since the epoch. */
  failedAt: number
  /** Its newest failure. */
  newest: LinkedCell
  /** Number of commits on which it failed. */
  length: number
  /** The newest commit before on which it passed; null if on none of those that were looked at. */
  lastPassed: string | null
  /** The commits of the branch between the two, the newest first. */
  unchecked: readonly string[]
  /** Where `since` is among the commits of the branch. */
  position: number
}

/** What is known of a check of a branch. */
export interface CheckHistory {
  context: string
  /** null if it does not fail now. */
  breakage: Breakage | null
  /** Whether it passed on one of the commits that were looked at. */
  hasPassed: boolean
}

/** A part of a history: the commits that may have broken a check, the newest first. */
export interface Suspects {
  /** The first one is `Breakage.since`. */
  commits: readonly Commit[]
  /** Whether there are more than these. */
  more: boolean
}

/** Commits of a branch that are looked at first: most checks fail since one of these. */
const FIRST = 30
/** Checks that are looked at. */
const MAX_CHECKS = 20
/**
 * Milliseconds for which it is remembered what is behind the first commits, and how often. A report on such
 * an old commit is shown within twice this time: the page that it changes may be made of what is remembered,
 * and is itself remembered for as long while nothing else changes.
 */
const [MAX_AGE, REMEMBERED] = [60_000, 2_000]

/** What is behind the first commits of a branch: its failures that lead up to these, the first and the newest. */
type Older = ReadonlyMap<
  string,
  FailingSince & { cell: LinkedCell | undefined; newest: LinkedCell | undefined }
>

type BreakageStore = Pick<Store, 'listTips' | 'matrix' | 'remote'> & {
  summaries: Pick<Store['summaries'], 'listStates' | 'list' | 'reportedIn'>
}

/** Finds out since when checks of branches fail, and who may have broken them. */
export class Breakages {
  readonly #commits: BranchCommits
  readonly #commitLog: Pick<CommitLog, 'between'>
  readonly #store: BreakageStore
  readonly #older = new LRUCache<string, Older>({ ...entriesUpTo(REMEMBERED), ttl: MAX_AGE })

  constructor(queue: FairQueue, commitLog: Pick<CommitLog, 'between'>, store: BreakageStore) {
    this.#commits = new BranchCommits(queue, store)
    this.#commitLog = commitLog
    this.#store = store
  }

  /**
   * Returns which branches may be broken, by the summaries of their newest commits: one without reports
   * says nothing about its branch, but where nothing was ever reported, nothing is broken.
   */
  async mayBeBroken(
    tips: readonly (Pick<StatusSummary, 'counts'> & { repositoryId: number })[],
  ): Promise<boolean[]> {
    const unreported = tips.filter((tip) => !isReported(tip)).map(({ repositoryId }) => repositoryId)
    const reported = await this.#store.summaries.reportedIn(unreported)
    return tips.map((tip) => (isReported(tip) ? isOpen(tip) : reported.has(tip.repositoryId)))
  }

  /**
   * Lists the commits that `findLongest` needs. Those of a branch whose newest commit has no reports are
   * only listed if something failed or runs on the newest one with reports: its latest moves lead to that.
   * Throws as `runInSlot`.
   *
   * @param summary of the newest commit
   * @returns as `commitsOf`
   */
  async commitsToSearch(
    repository: RepositoryFiles & { id: number },
    position: Position,
    summary: StatusSummary,
    client: QueueClient,
  ): Promise<string[]> {
    if (!isReported(summary)) {
      const latest = await this.#commits.list(repository, position, 'latest', client)
      const reported = await this.#newestReported(repository.id, latest, summary)
      if (reported === undefined || !isOpen(reported)) return [position.sha]
    }
    return this.commitsOf(repository, position, client)
  }

  /**
   * Lists the commits that a branch was at. Throws as `runInSlot`.
   *
   * @returns full ids, the newest first
   */
  commitsOf(
    repository: RepositoryFiles & { id: number },
    position: Position,
    client: QueueClient,
  ): Promise<string[]> {
    return this.#commits.list(repository, position, 'newest', client)
  }

  /**
   * Returns since when checks fail, in the order of the contexts.
   *
   * @param commits see `commitsOf`
   * @param contexts at most `MAX_CHECKS` are looked at
   */
  async find(
    repositoryId: number,
    commits: readonly string[],
    contexts: readonly string[],
  ): Promise<CheckHistory[]> {
    const wanted = contexts.slice(0, MAX_CHECKS)
    if (wanted.length === 0) return []
    const newest = commits.slice(0, FIRST)
    const histories = await this.#store.matrix.listHistories(repositoryId, newest, wanted)
    const found = wanted.map((context) => {
      const cells = histories.get(context) ?? []
      return { context, cells, ...failingSince(cells) }
    })
    const open = found.filter(({ lastPassed }) => lastPassed === null)
    const older = await this.#findOlder(
      repositoryId,
      commits.slice(FIRST),
      new Map(open.map(({ context, length }) => [context, length > 0])),
    )

    return found.map(({ context, cells, first, length, lastPassed }) => {
      const rest = older.get(context)
      const isOlder = rest !== undefined && rest.length > 0
      const cell = isOlder ? rest.cell : cells[first]
      const position = isOlder ? FIRST + rest.first : first
      const since = commits[position]
      const restPassed = rest?.lastPassed ?? null
      const passed = lastPassed ?? (restPassed === null ? null : FIRST + restPassed)
      const hasPassed = passed !== null
      const newest = length > 0 ? cells.find(isFailure) : rest?.newest
      if (cell === undefined || newest === undefined || since === undefined)
        return { context, breakage: null, hasPassed }
      const breakage = {
        context,
        since,
        state: cell.state,
        failedAt: cell.updated_at,
        newest,
        length: length + (rest?.length ?? 0),
        lastPassed: passed === null ? null : (commits[passed] ?? null),
        unchecked: passed === null ? [] : commits.slice(position + 1, passed),
        position,
      }
      return { context, breakage, hasPassed }
    })
  }

  /**
   * Returns the breakage that says since when a branch is broken, of the checks that failed on its
   * newest commit or run there; undefined if there is none. If nothing has been reported there yet,
   * those of the newest commit with reports count. Otherwise as `find`.
   *
   * @param commits see `commitsToSearch`
   * @param summary of the newest commit
   */
  async findLongest(
    repositoryId: number,
    commits: readonly string[],
    summary: StatusSummary,
  ): Promise<Breakage | undefined> {
    const reported = await this.#newestReported(repositoryId, commits, summary)
    if (reported === undefined) return undefined
    const { sha, counts, failed } = reported
    const { failure, pending } = combinedCounts(counts)
    const isAll = pending === 0 && failure === failed.length
    const open = isAll
      ? failed
      : (await this.#store.summaries.listStates({ repositoryId, sha }))
          .filter(({ state }) => COMBINED[state] !== 'success')
          .sort((one, other) => Number(isPending(one)) - Number(isPending(other)))
    return longest(
      await this.find(
        repositoryId,
        commits,
        open.map(({ context }) => context),
      ),
    )
  }

  async #newestReported(
    repositoryId: number,
    [tip, ...before]: readonly string[],
    summary: StatusSummary,
  ): Promise<(StatusSummary & { sha: string }) | undefined> {
    if (tip === undefined) return undefined
    if (isReported(summary)) return { sha: tip, ...summary }
    const commits = before.slice(0, UNREPORTED).map((sha) => ({ repositoryId, sha }))
    const summaries = await this.#store.summaries.list(commits)
    return summaries
      .map((summary, index) => ({ sha: before[index] ?? '', ...summary }))
      .find((summary) => isReported(summary))
  }

  /** @param hasNewest whether there are newer results, by context */
  async #findOlder(
    repositoryId: number,
    commits: readonly string[],
    hasNewest: ReadonlyMap<string, boolean>,
  ): Promise<Older> {
    if (commits.length === 0 || hasNewest.size === 0) return new Map()
    // Branches at one commit may have been at different ones before, and the value has places in this list.
    const key = JSON.stringify([repositoryId, hash('sha256', commits.join()), ...hasNewest])
    const known = this.#older.get(key)
    if (known) return known
    const histories = await this.#store.matrix.listHistories(repositoryId, commits, [...hasNewest.keys()])
    const older = new Map(
      [...histories].map(([context, cells]) => {
        const since = failingSince(cells, hasNewest.get(context))
        const [cell, newest] = since.length > 0 ? [cells[since.first], cells.find(isFailure)] : []
        return [context, { ...since, cell, newest }]
      }),
    )
    this.#older.set(key, older)
    return older
  }

  /**
   * Returns the commits that may have broken a check; only `since` if nobody can be named. Throws as
   * `runInSlot`.
   */
  async suspects(
    repository: RepositoryFiles,
    breakage: Pick<Breakage, 'since' | 'lastPassed' | 'state'>,
    client: QueueClient,
  ): Promise<Suspects> {
    const { since, lastPassed } = breakage
    return this.#commitLog.between(repository, since, namesSomebody(breakage) ? lastPassed : null, client)
  }
}

function isReported({ counts }: Pick<StatusSummary, 'counts'>): boolean {
  return combinedCounts(counts).total > 0
}

/** Returns whether something failed or runs. */
function isOpen({ counts }: Pick<StatusSummary, 'counts'>): boolean {
  const { failure, pending } = combinedCounts(counts)
  return failure > 0 || pending > 0
}

function isFailure(cell: LinkedCell | undefined): boolean {
  return cell !== undefined && COMBINED[cell.state] === 'failure'
}

function isPending({ state }: { state: StatusState }): boolean {
  return COMBINED[state] === 'pending'
}

/** Returns whether it is known between which commits a check was broken. */
export function namesSomebody({ lastPassed, state }: Pick<Breakage, 'lastPassed' | 'state'>): boolean {
  return lastPassed !== null && state !== 'error'
}

/**
 * Returns the check that says since when a branch is broken: of those that passed before, the one
 * that fails for the longest time. undefined if there is none.
 */
function longest(histories: readonly CheckHistory[]): Breakage | undefined {
  const place = (breakage: Breakage) => (namesSomebody(breakage) ? 0 : 1)
  return histories
    .flatMap(({ breakage }) => breakage ?? [])
    .sort(
      (one, other) =>
        place(one) - place(other) ||
        other.position - one.position ||
        one.unchecked.length - other.unchecked.length,
    )[0]
}

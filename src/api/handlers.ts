import type { Handlers } from '../../generated/handlers.ts'
import type { components } from '../../generated/schema.ts'
import type { Caller } from '../auth/access-policy.ts'
import type { Branches } from '../branches/branches.ts'
import { fullCommitId } from '../domain/commit-id.ts'
import { matchesPattern } from '../domain/patterns.ts'
import { refsOfBranch } from '../domain/ref-names.ts'
import { type Reservation, reportersOf } from '../domain/reservations.ts'
import { combinedState, type StatusState } from '../domain/states.ts'
import { ServiceError } from '../errors.ts'
import type { CommitLookup } from '../git/objects/commit-lookup.ts'
import type { QueueClient } from '../schedule/fair-queue.ts'
import type { ReadableRepository } from '../store/access/readable-repositories.ts'
import { WrittenTooLate } from '../store/engine.ts'
import type { StatusRow } from '../store/statuses/columns.ts'
import type { StoredReport } from '../store/statuses/statuses.ts'
import type { Store } from '../store/store.ts'
import { formatTime } from '../store/time.ts'
import { derive } from './answers.ts'

/**
 * Contexts that one verdict lists, under all of its patterns together: ten times as many as a
 * commit has.
 */
export const MAX_LISTED = 10_000

/** Milliseconds for which nobody asks again whether a caller may report. */
const RECENT = 1_000
/** How often a report is sent to a database that does not store it within `RECENT`. */
const ATTEMPTS = 4

/** Who calls an operation, and on whose behalf git is asked. */
export interface ApiCaller extends Caller {
  client: QueueClient
  /** When the caller was authorized, in milliseconds of a clock that nobody sets. */
  checkedAt: number
  /** Authorizes the caller for the same repository once more. @throws ServiceError as before the body */
  checkAgain(): Promise<ApiCaller>
}

/** What is reported, with the context that it has without one. */
type ReportBody = components['schemas']['StatusReport'] & { context: string }

/** What the handlers work with. */
export interface HandlerParts {
  store: {
    rules: Pick<Store['rules'], 'requiredPatterns'>
    reservations: Pick<Store['reservations'], 'namesOf'>
    statuses: Pick<Store['statuses'], 'hasAny' | 'list' | 'report'>
  }
  lookup: CommitLookup
  branches: Branches
  /** Called after each stored report. */
  onReported(state: StatusState): void
}

/**
 * Creates the handlers of the contract's operations. The caller is already authorized and the
 * request validated.
 */
export function createHandlers({ store, lookup, branches, onReported }: HandlerParts): Handlers<ApiCaller> {
  const { statuses, rules } = store

  /** Returns the statuses of a commit: the same array as before while nothing has changed. */
  async function statusesOf(repository: ReadableRepository, id: string): Promise<readonly StatusRow[]> {
    const sha = fullCommitId(repository.objectFormat, id)
    const rows = await statuses.list(repository.id, sha)
    if (rows.length === 0) await checkCommit(repository, sha)
    return rows
  }

  /** @throws ServiceError that names the commit of an annotated tag, unless the id is that of a commit */
  async function checkCommit(repository: ReadableRepository, sha: string): Promise<void> {
    const type = await lookup.typeOf(repository, sha)
    if (type === 'commit') return
    const commit = type === 'tag' ? await lookup.commitOfTag(repository, sha) : null
    throw new ServiceError(
      'commit_unknown',
      commit ? `${sha} is a tag object; its commit is ${commit}. Send that id.` : undefined,
    )
  }

  /**
   * Checks that a repository reserves a context for no others. A `pending` without a run is taken from
   * everybody: it asks for another run, and makes nothing pass.
   *
   * @throws ServiceError that names the context and who may report it
   */
  async function checkReserved(
    reservations: readonly Reservation[],
    { token }: Caller,
    { context, state, run }: ReportBody,
  ): Promise<void> {
    const users = state === 'pending' && run === undefined ? null : reportersOf(reservations, context)
    if (users === null || (token !== null && users.includes(token.userId))) return
    const names = await store.reservations.namesOf(users)
    throw new ServiceError(
      'context_reserved',
      `${JSON.stringify(context)} may be reported by ${names.join(', ') || 'nobody'}. Nothing was changed.`,
    )
  }

  /**
   * Stores a report of a caller who was authorized within the last second. Whoever was authorized
   * earlier, because the body came slowly, or git or the database took long, is authorized again.
   *
   * @returns undefined when the repository is gone
   * @throws ServiceError if the caller may not report any more; StoreUnavailable
   */
  async function storeReport(caller: ApiCaller, sha: string, body: ReportBody) {
    let current = caller
    for (let attempt = 1; ; attempt++) {
      if (performance.now() - current.checkedAt > RECENT) {
        current = await current.checkAgain()
        const { reservations } = current.repository
        if (reservations) await checkReserved(reservations, current, body)
      }
      try {
        return await statuses.report({
          // First, since a body may have other fields, with any names.
          ...body,
          repositoryId: current.repository.id,
          sha,
          reporterId: current.token?.reporterId ?? null,
          storedBy: current.checkedAt + RECENT,
        })
      } catch (error) {
        if (!(error instanceof WrittenTooLate) || attempt === ATTEMPTS) throw error
      }
    }
  }

  return {
    async reportStatus({ params, body }, caller) {
      const { repository } = caller
      const sha = fullCommitId(repository.objectFormat, params.sha)
      checkLimits(caller, body.context)
      if (repository.reservations) await checkReserved(repository.reservations, caller, body)
      if (!(await statuses.hasAny(repository.id, sha))) await checkCommit(repository, sha)
      const row = await storeReport(caller, sha, body)
      if (!row) throw new ServiceError('repository_unknown')
      onReported(row.state)
      return { status: 201, body: toReportedStatus(row) }
    },

    async listStatuses({ params }, { repository }) {
      const rows = await statusesOf(repository, params.sha)
      return { status: 200, derived: derive(toCommitStatuses, rows) }
    },

    async getVerdict({ params, query }, { repository, client }) {
      const { require = [], branch } = query
      const rows = await statusesOf(repository, params.sha)
      const ruled: string[] = []
      for (const ref of branch === undefined ? [] : refsOfBranch(branch))
        ruled.push(...(await rules.requiredPatterns(repository.id, ref)))
      const body = await branches.verdict(rows, [...new Set([...require, ...ruled])], client)
      const listedContexts = body.required.reduce((sum, { contexts }) => sum + contexts.length, 0)
      if (listedContexts > MAX_LISTED)
        throw new ServiceError(
          'field_invalid',
          `require: all patterns together match ${listedContexts} contexts; at most ${MAX_LISTED} are allowed`,
        )
      return { status: 200, body }
    },

    async getLastPassed({ query }, { repository, client }) {
      const { lookedAt, commit, ...answer } = await branches.lastPassed(repository, query, client)
      const body = { ...answer, commit: commit && withoutVerdict(commit), looked_at: lookedAt }
      return { status: 200, body, headers: linkTo(query, body.next) }
    },

    async listAwaiting({ query }, { repository, client }) {
      const page = await branches.awaiting(repository, query, client)
      return { status: 200, derived: derive(withLeftOut, page), headers: linkTo(query, page.next) }
    },

    async listBranches({ query }, { repository, client }) {
      const page = await branches.list(repository, query, client)
      return { status: 200, derived: derive(withLeftOut, page), headers: linkTo(query, page.next) }
    },
  }
}

/** Returns a commit as an answer about what passed shows it: its verdict goes without saying. */
function withoutVerdict({ sha, state, counts }: components['schemas']['PassedCommit']) {
  return { sha, state, counts }
}

/** Returns a page of branches as an answer shows it. */
function withLeftOut<Page extends { unnamed: number }>({ unnamed, ...page }: Page) {
  return { ...page, left_out: unnamed }
}

/** Returns the header that leads to the next page (RFC 8288), with all parameters of this one. */
function linkTo(query: object, next: string | null): { Link?: string } {
  if (next === null) return {}
  const pairs = Object.entries({ ...query, after: next }).flatMap(([name, values]: [string, unknown]) =>
    [values].flat().map((value) => `${name}=${encodeQuery(String(value))}`),
  )
  return { Link: `<?${pairs.join('&')}>; rel="next"` }
}

/** Encodes a value of a query, and leaves as it is what clients do: the link is not longer than theirs. */
function encodeQuery(text: string): string {
  return encodeURIComponent(text).replace(/%(?:2F|3A|3F|40|2C|3B|24)/g, decodeURIComponent)
}

/**
 * Checks that a token may report a context.
 *
 * @throws ServiceError that names the context and the patterns
 */
function checkLimits({ token }: Caller, context: string): void {
  const patterns = token?.limits.contexts
  if (!patterns || patterns.some((pattern) => matchesPattern(pattern, context))) return
  throw new ServiceError(
    'token_excludes_context',
    `This token may not report the context ${JSON.stringify(context)}. ` +
      `It is limited to contexts that match ${patterns.map((pattern) => JSON.stringify(pattern)).join(' or ')}.`,
  )
}

/**
 * Returns the body of a read. It is cached with its rows, so nothing else may become part of it: no
 * time, no rules.
 */
export function toCommitStatuses(rows: readonly StatusRow[]): components['schemas']['CommitStatuses'] {
  return { state: combinedState(rows.map(({ state }) => state)), statuses: rows.map(toStatus) }
}

/** Returns what was just reported as its answer shows it. */
function toReportedStatus({ claimed_until, ...row }: StoredReport): components['schemas']['Status'] {
  return claimed_until === undefined
    ? toStatus(row)
    : { ...toStatus(row), claimed_until: formatTime(claimed_until) }
}

/** Returns a row as an answer shows it. */
export function toStatus(row: StatusRow): components['schemas']['Status'] {
  return { ...row, created_at: formatTime(row.created_at), updated_at: formatTime(row.updated_at) }
}

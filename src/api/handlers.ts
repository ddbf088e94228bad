import type { Handlers } from '../../generated/handlers.ts'
import type { components } from '../../generated/schema.ts'
import type { Caller } from '../auth/access-policy.ts'
import { fullCommitId } from '../domain/commit-id.ts'
import { matchesPattern } from '../domain/patterns.ts'
import { BRANCHES, TAGS } from '../domain/ref-names.ts'
import { combinedState, type StatusState } from '../domain/states.ts'
import { verdictOf } from '../domain/verdict.ts'
import { defaultMessage, ServiceError } from '../errors.ts'
import { type CommitLookup, commitExists } from '../git/objects/commit-lookup.ts'
import type { ReadableRepository } from '../store/access/readable-repositories.ts'
import type { StatusRow } from '../store/statuses/columns.ts'
import type { Store } from '../store/store.ts'
import { formatTime } from '../store/time.ts'
import { derive } from './answers.ts'

/**
 * Contexts that one verdict lists, under all of its patterns together: ten times as many as a
 * commit has.
 */
export const MAX_LISTED = 10_000

/** An annotated tag is an object, with an id of its own. */
const TAG_HINT = ' For an annotated tag, send the id of its commit: git rev-parse "TAG^{commit}".'

/** Called after each stored report. */
export type OnReported = (state: StatusState) => void

/**
 * Creates the handlers of the contract's operations. The caller is already authorized and the
 * request validated.
 */
export function createHandlers(store: Store, lookup: CommitLookup, onReported: OnReported): Handlers<Caller> {
  const { statuses, rules } = store

  /**
   * Returns the statuses of a commit: the same array as before while nothing has changed.
   *
   * @param hint follows the message that the commit does not exist
   */
  async function statusesOf(
    repository: ReadableRepository,
    id: string,
    hint = '',
  ): Promise<readonly StatusRow[]> {
    const sha = fullCommitId(repository.objectFormat, id)
    const rows = await statuses.list(repository.id, sha)
    if (rows.length === 0 && !(await lookup.has(repository, sha)))
      throw new ServiceError('commit_unknown', defaultMessage('commit_unknown') + hint)
    return rows
  }

  return {
    async reportStatus({ params, body }, { repository, token }) {
      const sha = fullCommitId(repository.objectFormat, params.sha)
      if (token?.limits.contexts) checkContext(token.limits.contexts, body.context)
      if (!(await commitExists(statuses, lookup, repository, sha))) throw new ServiceError('commit_unknown')
      const row = await statuses.report({
        // First, since a body may have other fields, with any names.
        ...body,
        repositoryId: repository.id,
        sha,
        reporterId: token?.reporterId ?? null,
      })
      if (!row) throw new ServiceError('repository_unknown')
      onReported(row.state)
      return { status: 201, body: toStatus(row) }
    },

    async listStatuses({ params }, { repository }) {
      const rows = await statusesOf(repository, params.sha)
      return { status: 200, derived: derive(toCommitStatuses, rows) }
    },

    async getVerdict({ params, query }, { repository }) {
      const { require = [], branch } = query
      const rows = await statusesOf(repository, params.sha, branch?.startsWith(TAGS) ? TAG_HINT : '')
      const ruled: string[] = []
      for (const ref of refsOf(branch)) ruled.push(...(await rules.requiredPatterns(repository.id, ref)))
      const body = verdictOf(rows, [...new Set([...require, ...ruled])])
      const listedContexts = body.required.reduce((sum, { contexts }) => sum + contexts.length, 0)
      if (listedContexts > MAX_LISTED)
        throw new ServiceError(
          'field_invalid',
          `require: all patterns together match ${listedContexts} contexts; at most ${MAX_LISTED} are allowed`,
        )
      return { status: 200, body }
    },
  }
}

/** Returns the full names of the refs that a client may mean by the name of a branch. */
function refsOf(name: string | undefined): string[] {
  if (name === undefined) return []
  if (name.startsWith(TAGS)) return [name]
  // CI systems name a branch like this. A rule that is missed would not be noticed.
  return name.startsWith(BRANCHES) ? [name, `${BRANCHES}${name}`] : [`${BRANCHES}${name}`]
}

/**
 * Checks that a token may report a context.
 *
 * @throws ServiceError that names the context and the patterns
 */
function checkContext(patterns: readonly string[], context: string): void {
  if (patterns.some((pattern) => matchesPattern(pattern, context))) return
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

/** Returns a row as an answer shows it. */
export function toStatus(row: StatusRow): components['schemas']['Status'] {
  return { ...row, created_at: formatTime(row.created_at), updated_at: formatTime(row.updated_at) }
}

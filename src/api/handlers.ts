import type { Handlers, Reply } from '../../generated/handlers.ts'
import type { components } from '../../generated/schema.ts'
import { combinedState } from '../domain/combined-state.ts'
import { commitsOf } from '../domain/commits.ts'
import { checkContext } from '../domain/context-limits.ts'
import { ServiceError } from '../errors.ts'
import type { CommitLookup } from '../git/commit-lookup.ts'
import type { CommitKey, StatusRow } from '../store/statuses.ts'
import type { Store } from '../store/store.ts'
import type { StatusState } from '../store/tables.ts'
import { formatTime } from '../store/time.ts'
import type { ApiCaller } from './caller.ts'
import { createGetVerdict } from './get-verdict.ts'

/** Called after each stored report. */
export type OnReported = (commit: CommitKey, state: StatusState) => void

/**
 * Creates the handlers of the contract's operations. The caller is already authorized and the request validated.
 */
export function createHandlers(
  store: Store,
  lookup: CommitLookup,
  onReported: OnReported,
): Handlers<ApiCaller> {
  const { statuses } = store
  const commits = commitsOf(statuses, lookup)
  return {
    getVerdict: createGetVerdict(store, commits),

    async reportStatus({ params, body }, { repository, token }) {
      const sha = commits.fullId(repository, params.sha)
      checkContext(token?.limits.contexts ?? null, body.context)
      if (!(await commits.has(repository, sha))) throw new ServiceError('commit_unknown')
      const row = await statuses.report({
        repositoryId: repository.id,
        sha,
        context: body.context,
        state: body.state,
        description: body.description ?? null,
        targetUrl: body.target_url ?? null,
        reporterId: token?.reporterId ?? null,
      })
      if (!row) throw new ServiceError('repository_unknown')
      onReported({ repositoryId: repository.id, sha }, row.state)
      return respond(201, toStatus(row))
    },

    async listStatuses({ params }, { repository }) {
      const sha = commits.fullId(repository, params.sha)
      const rows = await statuses.list(repository.id, sha)
      if (rows.length === 0 && !(await commits.inGit(repository, sha)))
        throw new ServiceError('commit_unknown')
      // The store returns the same rows while nothing has changed.
      return respond(200, () => toCommitStatuses(rows), rows)
    },
  }
}

/** @param source see `Reply` */
function respond<Status extends number, Body extends object>(
  status: Status,
  body: Body | (() => Body),
  source?: object,
): Omit<Reply<Status, Body>, 'waitForChange'> {
  return { status, body, ...(source && { source }) }
}

/** Returns the body of a read. */
export function toCommitStatuses(rows: readonly StatusRow[]): components['schemas']['CommitStatuses'] {
  return { state: combinedState(rows.map(({ state }) => state)), statuses: rows.map(toStatus) }
}

function toStatus(row: StatusRow): components['schemas']['Status'] {
  return { ...row, created_at: formatTime(row.created_at), updated_at: formatTime(row.updated_at) }
}

import { hash } from 'node:crypto'
import type { GetVerdictReply, GetVerdictRequest } from '../../generated/handlers.ts'
import type { CommitsOf } from '../domain/commits.ts'
import { digestOf, verdictOf } from '../domain/verdict.ts'
import { ServiceError } from '../errors.ts'
import type { Store } from '../store/store.ts'
import type { ApiCaller } from './caller.ts'
import type { Wait } from './waited-commit.ts'

/** Contexts. A commit with more may have a large answer: each pattern lists those that it matches. */
const LARGE_COMMIT = 256
/** Seconds after which a client may ask again for an answer to be held. */
const RETRY_AFTER = '5'

/**
 * Creates the handler of `getVerdict`. An answer that the caller has already is held as long as the request allows and the
 * verdict does not change. Then everything is looked up again, access first, as for a new request.
 */
export function createGetVerdict({ statuses, rules }: Store, commits: CommitsOf) {
  /**
   * Computes the verdict, or prepares a wait for it.
   *
   * @param until when the request's time to wait is over, by `performance.now()`
   * @param before digest of the answer that the client has; a different answer is sent immediately, whatever
   * `If-None-Match` says
   */
  async function answer(
    { params, query }: GetVerdictRequest,
    caller: ApiCaller,
    until: number,
    before?: string,
  ): Promise<GetVerdictReply> {
    const { repository } = caller
    const sha = commits.fullId(repository, params.sha)
    const { require = [], branch } = query
    const ruled = branch === undefined ? [] : await rules.requiredPatterns(repository.id, branch)
    const patterns = [...new Set([...require, ...ruled])]
    const rows = await statuses.list(repository.id, sha)
    if (rows.length === 0 && !(await commits.inGit(repository, sha))) throw new ServiceError('commit_unknown')
    if (rows.length > LARGE_COMMIT) await caller.admit()
    const body = await verdictOf(rows, patterns)
    if (performance.now() >= until) return { status: 200, body }
    const known = await digestOf(body)
    if (before !== undefined && before !== known) return { status: 200, body }
    // A large commit's patterns can list many contexts, so a waiting request does not keep the body.
    const wait: Wait = {
      until,
      contexts: rows.length,
      comparisons: rows.length * patterns.length,
      known,
      question: hash('sha1', JSON.stringify(patterns)),
      digest: async (reported) => digestOf(await verdictOf(reported, patterns)),
    }
    return {
      status: 200,
      body,
      async waitForChange() {
        const waited = await caller.wait({ repositoryId: repository.id, sha }, wait)
        if (waited) return answer({ params, query }, await caller.again(), until, known)
        const reply = await answer({ params, query }, caller, 0)
        return { ...reply, headers: { 'Retry-After': RETRY_AFTER } }
      },
    }
  }

  return (request: GetVerdictRequest, caller: ApiCaller): Promise<GetVerdictReply> => {
    const { wait } = request.query
    return answer(request, caller, wait > 0 ? performance.now() + wait * 1000 : 0)
  }
}

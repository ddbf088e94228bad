import type { Caller } from '../auth/access-policy.ts'
import type { CommitKey } from '../store/statuses.ts'
import type { Wait } from './waited-commit.ts'

/** The caller of an operation. */
export interface ApiCaller extends Caller {
  /**
   * Waits for permission to build a large answer. The request holds it until the answer is serialized. Does nothing if it
   * has it.
   *
   * @throws ServiceError `unavailable` when too many requests wait, or for too long
   */
  admit(): Promise<void>
  /**
   * Waits as `Waiters.wait`.
   *
   * @throws ServiceError `malformed_request` when the client disconnects
   */
  wait(commit: CommitKey, options: Wait): Promise<boolean>
  /** Authorizes the caller once more. @throws as a new request would */
  again(): Promise<ApiCaller>
}

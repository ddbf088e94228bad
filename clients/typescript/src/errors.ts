import { retryAfter } from './backoff.ts'
import type { Result } from './operation.ts'

/** A result other than success, thrown by `unwrap`. */
export class CommitStatusError extends Error {
  override name = 'CommitStatusError'
  /** The answer's status code; 0 when the service was not reached or something else answered. */
  readonly status: number
  /** The answer's `Retry-After` in seconds; null when it has none. */
  readonly retryAfter: number | null

  constructor(status: number, message: string, retryAfter: number | null) {
    super(message)
    this.status = status
    this.retryAfter = retryAfter
  }
}

/** The body of a result whose status is 2xx. */
export type SuccessBody<R> =
  R extends Result<infer Status, infer Body> ? (`${Status}` extends `2${string}` ? Body : never) : never

/**
 * Returns the body of a successful result: `const status = unwrap(await client.reportStatus(...))`.
 *
 * @throws CommitStatusError for every other result
 */
export function unwrap<R extends Result<number, unknown>>(result: R): SuccessBody<R> {
  if (isSuccess(result)) return result.body
  const { status, body, headers } = result
  const message =
    typeof body === 'object' && body !== null && 'error' in body ? String(body.error) : `answered ${status}`
  throw new CommitStatusError(status, message, retryAfter(headers))
}

function isSuccess<R extends Result<number, unknown>>(result: R): result is R & { body: SuccessBody<R> } {
  return result.status >= 200 && result.status < 300
}

import { ExpectedError } from './util/expected-errors.ts'

/**
 * Every error that a caller can receive: its status code and its default message. openapi.yaml
 * declares the codes of each operation. Code outside the HTTP layer throws a `ServiceError` with
 * the name of a row, and does not deal with status codes.
 */
const table = {
  malformed_request: [400, 'The request is not valid HTTP.'],
  malformed_url: [400, 'The URL is malformed. Its percent-encoding must be complete and valid UTF-8.'],
  host_missing: [400, 'The Host header is missing.'],
  git_service_unknown: [
    400,
    'Only the smart HTTP protocol is supported. Send "service" once, as git-upload-pack or git-receive-pack.',
  ],
  body_not_gzip: [400, 'The body is not valid gzip, although its Content-Encoding is gzip.'],
  body_not_json: [400, 'The body is not valid JSON.'],
  credential_missing: [
    401,
    'This request requires a personal access token. Send it as "Authorization: Bearer <token>". Create one under /settings/tokens.',
  ],
  credential_empty: [
    401,
    'The Authorization header contains a scheme but no token. Check that the secret that holds the token is set.',
  ],
  credential_malformed: [
    401,
    'The Authorization header is malformed. Send it once, as "Bearer <token>" or "token <token>".',
  ],
  credential_unknown: [
    401,
    'The token is unknown, expired or revoked. Create a new one under /settings/tokens.',
  ],
  sign_in_refused: [401, 'The sign-in was not completed, or took too long. Start again.'],
  scope_missing: [
    403,
    'The token does not have the "repo" scope. Create one that does under /settings/tokens.',
  ],
  csrf_wrong: [
    403,
    'This form has expired or was not issued by this site. Go back, reload the page and try again.',
  ],
  session_ended: [403, 'You are no longer signed in, so nothing was changed. Sign in and try again.'],
  read_only: [
    403,
    'You have read access to this repository but not write access. Ask its owner for write access.',
  ],
  not_admin: [403, 'You may not administer this. Ask someone with the permission "admin" for it.'],
  token_excludes_repository: [
    403,
    'This token is limited to other repositories. Use a token that includes this repository.',
  ],
  token_excludes_push: [403, 'This token may not push. Use a token without that limit.'],
  context_reserved: [403, 'This context may be reported by others only.'],
  token_excludes_context: [403, 'This token may not report this context.'],
  path_unknown: [404, 'This path does not exist. The API is documented under /docs.'],
  repository_unknown: [404, 'The repository does not exist, or you do not have access to it.'],
  token_unknown: [404, 'You have no such token. It may already have been revoked.'],
  commit_unknown: [404, 'The commit does not exist in this repository. Push it first.'],
  branch_unknown: [404, 'The branch does not exist in this repository.'],
  method_wrong: [405, 'This path does not support the method. The Allow header lists the supported methods.'],
  run_superseded: [409, 'A newer run has reported this context. Nothing was changed.'],
  claim_refused: [409, 'What is stored excludes this claim. Nothing was changed.'],
  report_late: [
    409,
    'The result of this run is already stored, so its "pending" came too late. Nothing was changed.',
  ],
  too_slow: [408, 'The request took too long to arrive.'],
  body_too_large: [413, 'The body is too large.'],
  media_type_wrong: [
    415,
    'Send the body as "Content-Type: application/json", in UTF-8 and without a Content-Encoding.',
  ],
  expectation_unknown: [417, 'The only supported expectation is "100-continue".'],
  field_invalid: [422, 'A field has an invalid value.'],
  blocked: [429, 'Too many failed authentication attempts from this address.'],
  headers_too_large: [431, 'The headers are too large.'],
  internal: [500, 'Internal server error. The log has details under the id in X-Request-Id.'],
  provider_mismatch: [
    502,
    'The provider with which people sign in here and this server do not fit together. An administrator must look: the log says what is wrong.',
  ],
  authentication_busy: [503, 'Too many authentication attempts are waiting. Try again in a few seconds.'],
  no_room: [503, 'There is no room for this push now. Try again in a few minutes.'],
  git_busy: [503, 'Too many git operations are in progress. Try again in a few seconds.'],
  provider_unavailable: [
    503,
    'The provider with which people sign in here does not answer as it should. Try again in a few seconds.',
  ],
  unavailable: [503, 'The service is temporarily unavailable. Try again in a few seconds.'],
} as const satisfies Record<string, readonly [status: number, message: string]>

export type ErrorCode = keyof typeof table

/** An error to answer a request with, identified by its row in the table. */
export class ServiceError extends ExpectedError {
  override readonly name = 'ServiceError'
  readonly code: ErrorCode

  constructor(code: ErrorCode, message: string = table[code][1], options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** An error with the time after which a client may try again. */
export class TryLater extends ServiceError {
  /** Whole seconds, at least 1. */
  readonly retryAfter: number

  constructor(code: ErrorCode, retryAfter: number, message?: string) {
    super(code, message)
    this.retryAfter = retryAfter
  }
}

/** Returns the status code of an error. */
export function statusOf(code: ErrorCode): number {
  return table[code][0]
}

/** Returns all default messages, by their status. */
export function errorsByStatus(): [status: number, messages: string[]][] {
  const groups = Map.groupBy(Object.values(table), ([status]) => status)
  return [...groups].map(([status, rows]) => [status, rows.map(([, message]) => message)])
}

/** Returns the default message of an error. */
export function defaultMessage(code: ErrorCode): string {
  return table[code][1]
}

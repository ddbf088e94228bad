/**
 * Every error that a caller can meet: its status code and what it says when nothing more exact is known (contract,
 * part 7). Code that finds a fault throws `ServiceError` by the row's name and knows nothing of HTTP.
 */
const table = {
  malformed_request: [400, 'The request is not valid HTTP.'],
  malformed_url: [400, 'The URL is malformed: its percent-encoding must be complete and valid UTF-8.'],
  host_missing: [400, 'The Host header is missing.'],
  git_service_unknown: [
    400,
    'Only the smart protocol of git is served: "service" must be git-upload-pack or git-receive-pack, given once.',
  ],
  body_not_gzip: [400, 'The body is not what its Content-Encoding says: gzip.'],
  body_not_json: [400, 'The body is not valid JSON.'],
  credential_missing: [
    401,
    'A personal access token is needed here: send it as "Authorization: Bearer <token>". Create one under /settings/tokens.',
  ],
  credential_empty: [
    401,
    'The Authorization header names a scheme but holds no token. Is the secret that should hold it set?',
  ],
  credential_malformed: [
    401,
    'The Authorization header must be "Bearer <token>" or "token <token>", and sent once.',
  ],
  credential_unknown: [
    401,
    'The token is unknown, expired or revoked. Create a new one under /settings/tokens.',
  ],
  scope_missing: [403, 'The token lacks the scope "repo". Create one that has it under /settings/tokens.'],
  csrf_wrong: [
    403,
    'This form has expired or did not come from here. Go back, reload the page and try again.',
  ],
  read_only: [403, 'You may read this repository but not write to it. Ask its owner for write access.'],
  path_unknown: [404, 'There is nothing at this path. The API is described under /docs.'],
  repository_unknown: [404, 'There is no such repository, or you may not see it.'],
  token_unknown: [404, 'There is no such token of yours. It may have been revoked already.'],
  commit_unknown: [404, 'There is no such commit in this repository. Push it before reporting on it.'],
  method_wrong: [405, 'This path does not answer that method; the Allow header names those it does.'],
  too_slow: [408, 'The request took too long to arrive.'],
  body_too_large: [413, 'The body is too large.'],
  media_type_wrong: [
    415,
    'Send the body as "Content-Type: application/json", in UTF-8 and without a Content-Encoding.',
  ],
  expectation_unknown: [417, 'The only expectation that can be met is "100-continue".'],
  field_invalid: [422, 'A field has an invalid value.'],
  blocked: [429, 'Too many failed authentication attempts from this address.'],
  headers_too_large: [431, 'The headers are too large.'],
  internal: [500, 'The server made a mistake. It is logged with the id in X-Request-Id.'],
  authentication_busy: [503, 'Too many authentication attempts are waiting. Try again in a few seconds.'],
  git_busy: [503, 'Too many git operations are under way. Try again in a few seconds.'],
  unavailable: [503, 'The service cannot answer at the moment. Try again in a few seconds.'],
} as const satisfies Record<string, readonly [status: number, message: string]>

export type ErrorCode = keyof typeof table

/** Something that a caller did or met, by its row in the table of errors. */
export class ServiceError extends Error {
  override name = 'ServiceError'
  readonly code: ErrorCode

  constructor(code: ErrorCode, message: string = table[code][1], options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** Status code of an error. */
export function statusOf(code: ErrorCode): number {
  return table[code][0]
}

/** What an error says when nothing more exact is known. */
export function messageOf(code: ErrorCode): string {
  return table[code][1]
}

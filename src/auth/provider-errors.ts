import { ServiceError } from '../errors.ts'

/** A problem of the provider whose message may be logged. */
export class ProviderFault extends Error {
  override readonly name = 'ProviderFault'
}

/** The last request of a step to the provider, and its answer, as far as they may be logged. */
export interface Asked {
  /** Of the URL. */
  path?: string
  /** Status and media type; undefined without an answer. */
  answer?: { status: number; type: string; error: string | undefined }
}

/** Errors of OAuth that may pass by themselves. */
const PASSING = ['server_error', 'temporarily_unavailable', 'slow_down']
const TOO_MANY = 429
const SERVER_ERROR = 500
/** The end of a connection, a name that is not found, or a time limit: codes of Node and of the library. */
const UNREACHABLE = /^(?:E(?!RR_)|UND_ERR_|OAUTH_TIMEOUT|OAUTH_ABORT)|^TimeoutError$/
/** Classes of the libraries whose messages are fixed texts, as opposed to those about what they received. */
const FIXED_MESSAGES = [
  'ClientError',
  'OperationProcessingError',
  'UnsupportedOperationError',
  'ProviderFault',
]
/** Claims that name neither a person nor an attempt. */
const SHOWN_CLAIMS = ['iss', 'aud']
const MAX_SHOWN = 200

/** Returns a code of OAuth, such as `access_denied`; undefined for anything else. */
export function oauthCode(value: unknown): string | undefined {
  return typeof value === 'string' && /^\w{1,40}$/.test(value) ? value : undefined
}

/** Returns whether trying again may help after an error of OAuth. */
export function mayPass(error: string | undefined): boolean {
  return error !== undefined && PASSING.includes(error)
}

/**
 * Returns the error to answer with when a step of a sign-in has failed: `provider_unavailable` if
 * trying again may help, otherwise `provider_mismatch`. Its cause says what was expected and
 * received. The library's errors hold claims and tokens, of which only those are logged that name
 * neither a person nor an attempt.
 */
export function providerError(error: unknown, { path, answer }: Asked): ServiceError {
  if (error instanceof ServiceError) return error
  const facts: string[] = []
  if (path !== undefined) facts.push(path)
  if (answer) facts.push(`HTTP ${answer.status} ${answer.type}`)
  if (answer?.error !== undefined) facts.push(`error ${answer.error}`)
  let isUnreachable = false
  let cause = error
  for (; cause instanceof Error; cause = cause.cause) {
    const code = oauthCode('code' in cause ? cause.code : undefined) ?? cause.name
    isUnreachable ||= UNREACHABLE.test(code)
    facts.push(code)
    if (FIXED_MESSAGES.includes(cause.name)) facts.push(cause.message)
  }
  if (typeof cause === 'object' && cause !== null) facts.push(...comparison(cause))
  const { status = 0, error: answered } = answer ?? {}
  const isPassing = isUnreachable || status >= SERVER_ERROR || status === TOO_MANY || mayPass(answered)
  const reason = new Error(`OpenID Connect provider: ${[...new Set(facts)].join(', ')}`)
  return new ServiceError(isPassing ? 'provider_unavailable' : 'provider_mismatch', undefined, {
    cause: reason,
  })
}

/** Returns what the library expected and received, of the cause of an error. */
function comparison(cause: object): string[] {
  const { expected, header, alg = header?.alg, claims, claim, body, parameters } = cause as Comparison
  if (alg !== undefined) return [`signed with ${shown(alg)}`, `expected ${shown(expected)}`]
  if (claim && claims)
    return SHOWN_CLAIMS.includes(claim)
      ? [`${claim} is ${shown(claims[claim])}`, `expected ${shown(expected)}`]
      : [claim]
  if (parameters?.has('iss') && typeof expected === 'string')
    return [`iss is ${shown(parameters.get('iss'))}`, `expected ${shown(expected)}`]
  if (body?.issuer !== undefined) return [`issuer is ${shown(body.issuer)}`, `expected ${shown(expected)}`]
  return []
}

/** The fields of the library's causes. */
interface Comparison {
  expected?: unknown
  header?: { alg?: unknown }
  alg?: unknown
  claim?: string
  claims?: Record<string, unknown>
  body?: { issuer?: unknown }
  parameters?: URLSearchParams
}

function shown(value: unknown): string {
  return JSON.stringify(value ?? null).slice(0, MAX_SHOWN)
}

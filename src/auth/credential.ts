import type { ErrorCode } from '../errors.ts'
import { hashToken, isToken } from './token.ts'

/** Cannot identify anyone. */
type Unusable =
  | { kind: 'none' }
  /**
   * Invalid, whatever the database holds. `counts`: whether it counts against the failure budget.
   */
  | { kind: 'bad'; code: ErrorCode; counts: boolean }

/** The credential of a request. */
export type Credential =
  | Unusable
  /** A well-formed token; the database decides whether it exists. */
  | { kind: 'token'; hash: string }

const NONE: Unusable = { kind: 'none' }
const EMPTY: Unusable = { kind: 'bad', code: 'credential_empty', counts: false }
const MALFORMED: Unusable = { kind: 'bad', code: 'credential_malformed', counts: true }
const UNKNOWN: Unusable = { kind: 'bad', code: 'credential_unknown', counts: true }

/**
 * Extracts the token from what follows the scheme in an `Authorization` header. Returns null when
 * the value is malformed, and an empty string when it holds no token.
 */
export type SchemeReader = (value: string) => string | null

/** The content of an `Authorization` header, not yet verified. */
type Authorization = Unusable | { kind: 'value'; value: string }

/**
 * Reads the `Authorization` header.
 *
 * @param headers one value per header received, trimmed as Node does it; more than one is malformed
 * @param schemes by lower-case name; names are case-insensitive
 */
export function readAuthorization(
  headers: readonly string[],
  schemes: ReadonlyMap<string, SchemeReader>,
): Authorization {
  const [header = '', ...others] = headers
  if (others.length > 0) return MALFORMED
  if (header === '') return NONE
  const [, scheme = '', text = ''] = /^(\S+)(?: +(\S+))?$/.exec(header) ?? []
  if (text === '' && /^(?:bearer|token|basic)$/i.test(scheme)) return EMPTY
  const read = schemes.get(scheme.toLowerCase())
  if (!read) return MALFORMED
  const credential = read(text)
  if (credential === null) return MALFORMED
  return credential === '' ? NONE : { kind: 'value', value: credential }
}

/** Reads a personal access token from the `Authorization` header; see `readAuthorization`. */
export function readCredential(
  headers: readonly string[],
  schemes: ReadonlyMap<string, SchemeReader>,
): Credential {
  const authorization = readAuthorization(headers, schemes)
  if (authorization.kind !== 'value') return authorization
  return isToken(authorization.value) ? { kind: 'token', hash: hashToken(authorization.value) } : UNKNOWN
}

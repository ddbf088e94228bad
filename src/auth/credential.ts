import type { ErrorCode } from '../errors.ts'
import { valuesOf } from '../http/headers.ts'
import { hashToken, isToken } from './token.ts'

/** Nothing that could be right. */
type Unusable =
  | { kind: 'none' }
  /** Cannot be right, whatever the database holds. `counts`: against the failure budget. */
  | { kind: 'bad'; code: ErrorCode; counts: boolean }

/** What a request brought to say who sends it. */
export type Credential =
  | Unusable
  /** Has the form of a token; only the database knows whether it is one. */
  | { kind: 'token'; hash: string }

const NONE: Unusable = { kind: 'none' }
const EMPTY: Unusable = { kind: 'bad', code: 'credential_empty', counts: false }
const MALFORMED: Unusable = { kind: 'bad', code: 'credential_malformed', counts: true }
const UNKNOWN: Unusable = { kind: 'bad', code: 'credential_unknown', counts: true }

/** Takes the token out of the rest of an `Authorization` header: null where the form is wrong, empty where there is none. */
export type SchemeReader = (value: string) => string | null

/** What an `Authorization` header holds, before anybody asks whether it is right. */
type Authorization = Unusable | { kind: 'value'; value: string }

/**
 * Reads the `Authorization` header.
 *
 * @param rawHeaders names and values in turn: the parsed headers would hide a second one
 * @param schemes by name in lower case; names are matched without regard to case
 */
export function readAuthorization(
  rawHeaders: readonly string[],
  schemes: ReadonlyMap<string, SchemeReader>,
): Authorization {
  const header = authorization(rawHeaders)
  if (header === null) return MALFORMED
  if (header === '') return NONE
  const [, scheme = '', text = ''] = /^(\S+)(?: +(\S+))?$/.exec(header) ?? []
  if (text === '' && /^(?:bearer|token|basic)$/i.test(scheme)) return EMPTY
  const read = schemes.get(scheme.toLowerCase())
  if (!read) return MALFORMED
  const value = read(text)
  if (value === null) return MALFORMED
  return value === '' ? NONE : { kind: 'value', value }
}

/** Reads a personal access token from the `Authorization` header (contract, part 5); see `readAuthorization`. */
export function readCredential(
  rawHeaders: readonly string[],
  schemes: ReadonlyMap<string, SchemeReader>,
): Credential {
  const found = readAuthorization(rawHeaders, schemes)
  if (found.kind !== 'value') return found
  return isToken(found.value) ? { kind: 'token', hash: hashToken(found.value) } : UNKNOWN
}

/** The one value; empty when there is none; null when there are several. */
function authorization(rawHeaders: readonly string[]): string | null {
  const [value = '', ...others] = valuesOf(rawHeaders, 'authorization')
  if (others.length > 0) return null
  // Not `trim`: a no-break space is no white space of HTTP.
  return value.replace(/^[ \t]+|[ \t]+$/g, '')
}

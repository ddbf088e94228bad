import type { ErrorCode } from '../errors.ts'
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
 * @param headers its values, one for each time that it was sent: more than one is malformed
 * @param schemes by name in lower case; names are matched without regard to case
 */
export function readAuthorization(
  headers: readonly string[],
  schemes: ReadonlyMap<string, SchemeReader>,
): Authorization {
  const [value = '', ...others] = headers
  if (others.length > 0) return MALFORMED
  const header = trimBlanks(value)
  if (header === '') return NONE
  const [, scheme = '', text = ''] = /^(\S+)(?: +(\S+))?$/.exec(header) ?? []
  if (text === '' && /^(?:bearer|token|basic)$/i.test(scheme)) return EMPTY
  const read = schemes.get(scheme.toLowerCase())
  if (!read) return MALFORMED
  const credential = read(text)
  if (credential === null) return MALFORMED
  return credential === '' ? NONE : { kind: 'value', value: credential }
}

/** Reads a personal access token from the `Authorization` header (contract, part 5); see `readAuthorization`. */
export function readCredential(
  headers: readonly string[],
  schemes: ReadonlyMap<string, SchemeReader>,
): Credential {
  const found = readAuthorization(headers, schemes)
  if (found.kind !== 'value') return found
  return isToken(found.value) ? { kind: 'token', hash: hashToken(found.value) } : UNKNOWN
}

/** Trims HTTP's white space (RFC 9110, 5.6.3), of which a no-break space is none. In linear time, unlike a regular expression. */
function trimBlanks(text: string): string {
  let [start, end] = [0, text.length]
  while (start < end && isBlank(text[start])) start++
  while (end > start && isBlank(text[end - 1])) end--
  return text.slice(start, end)
}

function isBlank(character: string | undefined): boolean {
  return character === ' ' || character === '\t'
}

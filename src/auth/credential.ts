import type { ErrorCode } from '../errors.ts'
import { hashToken, isToken } from './token.ts'

/** What a request brought to say who sends it. */
export type Credential =
  | { kind: 'none' }
  /** Cannot be right, whatever the database holds. `counts`: against the failure budget. */
  | { kind: 'bad'; code: ErrorCode; counts: boolean }
  /** Has the form of a token; only the database knows whether it is one. */
  | { kind: 'token'; hash: string }

const NONE: Credential = { kind: 'none' }
const EMPTY: Credential = { kind: 'bad', code: 'credential_empty', counts: false }
const MALFORMED: Credential = { kind: 'bad', code: 'credential_malformed', counts: true }
const UNKNOWN: Credential = { kind: 'bad', code: 'credential_unknown', counts: true }

/** Takes the token out of the rest of an `Authorization` header: null where the form is wrong, empty where there is none. */
export type SchemeReader = (value: string) => string | null

/**
 * Reads the `Authorization` header (contract, part 5).
 *
 * @param rawHeaders names and values in turn: the parsed headers would hide a second one
 * @param schemes by name in lower case; names are matched without regard to case
 */
export function readCredential(
  rawHeaders: readonly string[],
  schemes: ReadonlyMap<string, SchemeReader>,
): Credential {
  const header = authorization(rawHeaders)
  if (header === null) return MALFORMED
  if (header === '') return NONE
  const [, scheme = '', value = ''] = /^(\S+)(?: +(\S+))?$/.exec(header) ?? []
  const read = schemes.get(scheme.toLowerCase())
  if (!read) return MALFORMED
  if (value === '') return EMPTY
  const token = read(value)
  if (token === null) return MALFORMED
  if (token === '') return NONE
  return isToken(token) ? { kind: 'token', hash: hashToken(token) } : UNKNOWN
}

/** The one value; empty when there is none; null when there are several. */
function authorization(rawHeaders: readonly string[]): string | null {
  let found: string | undefined
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]
    // The length rules out nearly every header without a lower-case copy of its name.
    if (name?.length !== 13 || name.toLowerCase() !== 'authorization') continue
    if (found !== undefined) return null
    found = rawHeaders[index + 1] ?? ''
  }
  return found?.trim() ?? ''
}

import { parse } from 'pg-connection-string'
import type { OidcOptions } from './auth/oidc.ts'
import { parseCidr, type TrustedProxies } from './http/address.ts'
import { parseDuration } from './util/duration.ts'
import { ExpectedError, isSystemError } from './util/expected-errors.ts'

/** A variable has an invalid value; the message names the variable. */
export class ConfigError extends ExpectedError {
  override readonly name = 'ConfigError'
}

const MAX_DURATION = 3_650 * 86_400_000

export function text(value: string): string {
  return value
}

/** Reads a whole number. */
export function integer(least: number, most = 999_999_999_999_999) {
  return (text: string, name: string): number => {
    const value = /^-?\d{1,15}$/.test(text) ? Number(text) : Number.NaN
    if (value >= least && value <= most) return value
    throw new ConfigError(`${name}: "${text}" is not a whole number from ${least} to ${most}`)
  }
}

export function choice<Value extends string>(values: readonly Value[]) {
  return (text: string, name: string): Value => {
    const match = values.find((value) => value === text)
    if (match !== undefined) return match
    throw new ConfigError(`${name}: "${text}" is unknown (expected ${values.join(', ')})`)
  }
}

/** Reads what can follow `Bearer` in a header. The message does not show the secret. */
export function bearerToken(text: string, name: string): string {
  if (/^[!-~]*$/.test(text)) return text
  throw new ConfigError(`${name}: the value is not printable ASCII without spaces`)
}

const ENCODE = 'Percent-encode / ? # @ and % in the user and the password'

/**
 * Reads the URL of a PostgreSQL database; null where there is none. The message does not show the
 * password. The driver takes the weaker modes of TLS for `verify-full`, with a warning in every
 * process, which naming that mode prevents.
 */
export function databaseUrl(given: string, name: string): string | null {
  if (given === '') return null
  const [, authority = '', rest = ''] = /^\w+:\/\/([^/?#]*)(.*)$/s.exec(given) ?? []
  // The part of a password after a slash is no database, and that before is no host.
  if (rest.includes('@'))
    throw new ConfigError(`${name}: the value has an "@" after the host. ${ENCODE}, for example / as %2F`)
  if (/,/.test(authority.slice(authority.lastIndexOf('@'))) || hostOf(rest).includes(','))
    throw new ConfigError(
      `${name}: the value names several hosts. Name one that leads to the primary, such as that of a proxy`,
    )
  const text = given.includes('uselibpqcompat=')
    ? given
    : given.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, '$1verify-full')
  try {
    if (/^postgres(ql)?:\/\//i.test(text) && parse(text).host !== undefined) return text
  } catch (error) {
    // Of the certificates that it names. The message says what is wrong with which file.
    if (isSystemError(error)) throw new ConfigError(`${name}: ${error.message}`)
  }
  throw new ConfigError(
    `${name}: the value is not the URL of a PostgreSQL database (expected for example postgres://user:password@host:5432/database). ${ENCODE}`,
  )
}

/** Returns the host that the query of a URL names instead of the one before its path. */
function hostOf(rest: string): string {
  return new URLSearchParams(rest.replace(/^[^?]*/, '')).get('host') ?? ''
}

/** Reads a duration of at least a second and at most ten years. Returns milliseconds. */
export function duration(text: string, name: string): number {
  const milliseconds = parseDuration(text)
  if (milliseconds >= 1_000 && milliseconds <= MAX_DURATION) return milliseconds
  throw new ConfigError(
    `${name}: "${text}" is not a duration from 1s to 3650d (expected for example 90s, 30m, 1h or 2d)`,
  )
}

/**
 * Reads the URL of an OpenID Connect provider; empty where there is none. Over plain http it must
 * be on this machine.
 */
export function issuer(text: string, name: string): string {
  if (text === '') return text
  const url = URL.parse(text)
  const isLoopback = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url?.hostname ?? '')
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback)
  if (url && isSafe && !/[?#@]/.test(text)) return url.href
  throw new ConfigError(`${name}: the value is not an https URL (http only on loopback) without a query`)
}

/** Reads `claim=value`; null where there is none. */
export function requiredClaim(text: string, name: string): OidcOptions['requiredClaim'] {
  const [, claim = '', value = ''] = /^([^=]+)=(.+)$/.exec(text) ?? []
  if (claim || text === '') return text === '' ? null : { name: claim, value }
  throw new ConfigError(
    `${name}: "${text}" is not a claim and its value (expected for example groups=ci-users)`,
  )
}

/**
 * Reads an origin; null where there is none. The message does not show the value, which may hold a
 * password.
 */
export function origin(text: string, name: string): string | null {
  if (text === '') return null
  const url = URL.parse(text)
  const isOrigin =
    url && /^https?:$/.test(url.protocol) && `${url.origin}/` === url.href && !text.includes('@')
  if (isOrigin) return url.origin
  throw new ConfigError(
    `${name}: the value is not an origin (expected for example https://status.example.org, without a path)`,
  )
}

export function proxies(text: string, name: string): TrustedProxies {
  const entries = text.split(',').map((entry) => entry.trim())
  return entries.filter(Boolean).map((entry) => {
    try {
      return parseCidr(entry)
    } catch (cause) {
      throw new ConfigError(`${name}: "${entry}" is not a CIDR (expected for example 10.0.0.0/8)`, { cause })
    }
  })
}

import { ServiceError } from '../errors.ts'
import { inMilliseconds, type Milliseconds, type Seconds } from './time.ts'

const SIGN_IN_DUE =
  'The user of this token has not signed in for too long. The token works again once the user signs in.'

/**
 * Returns when the tokens of a user stop working unless the user signs in again, since the
 * epoch; null: never.
 *
 * @param signedInAt column of the user @param every 0: tokens do not depend on it
 */
export function signInDue(signedInAt: Seconds | null, every: Seconds): Milliseconds | null {
  return signedInAt === null || every === 0 ? null : inMilliseconds(signedInAt + every)
}

/**
 * Checks that a token of a user who is not locked works. No other code decides that.
 *
 * @param token null: there is none
 * @param now since the epoch, like the fields of the token
 * @throws ServiceError `credential_unknown`
 */
export function checkToken<Token extends { expiresAt: Milliseconds | null; signInDue: Milliseconds | null }>(
  token: Token | null,
  now: Milliseconds,
): asserts token is Token {
  if (token === null || isExpired(token.expiresAt, now)) throw new ServiceError('credential_unknown')
  if (isExpired(token.signInDue, now)) throw new ServiceError('credential_unknown', SIGN_IN_DUE)
}

/**
 * Returns whether now >= expiry.
 *
 * @param expiresAt since the epoch; null: never expires
 */
export function isExpired(expiresAt: Milliseconds | null, now: Milliseconds): boolean {
  return expiresAt !== null && now >= expiresAt
}

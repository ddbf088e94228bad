import { ServiceError } from '../errors.ts'

const SIGN_IN_DUE =
  'The user of this token has not signed in for too long. The token works again once the user signs in.'

/**
 * Returns when the tokens of a user stop working unless the user signs in again, in milliseconds
 * since the epoch; null: never.
 *
 * @param signedInAt column of the user @param every seconds; 0: tokens do not depend on it
 */
export function signInDue(signedInAt: number | null, every: number): number | null {
  return signedInAt === null || every === 0 ? null : (signedInAt + every) * 1000
}

/**
 * Checks that a token of a user who is not locked works. No other code decides that.
 *
 * @param token null: there is none
 * @param now milliseconds since the epoch, like the fields of the token
 * @throws ServiceError `credential_unknown`
 */
export function checkToken<Token extends { expiresAt: number | null; signInDue: number | null }>(
  token: Token | null,
  now: number,
): asserts token is Token {
  if (token === null || isExpired(token.expiresAt, now)) throw new ServiceError('credential_unknown')
  if (isExpired(token.signInDue, now)) throw new ServiceError('credential_unknown', SIGN_IN_DUE)
}

/**
 * Returns whether now >= expiry.
 *
 * @param expiresAt milliseconds since the epoch; null: never expires
 */
export function isExpired(expiresAt: number | null, now: number): boolean {
  return expiresAt !== null && now >= expiresAt
}

import { Refusal } from '../domain/refusal.ts'
import type { NewToken, TokenInfo } from '../store/accounts/tokens.ts'
import type { Administrator } from '../store/audit/audit.ts'
import type { Change } from '../store/audit/change.ts'
import type { Store } from '../store/store.ts'
import { createToken, hashToken, tokenPrefix } from './token.ts'

/** Milliseconds before a token expires from which people are warned. */
export const EXPIRES_SOON = 7 * 86_400_000

/** Creates a token. Returns the only copy of the secret: the database stores a hash. */
export async function issueToken(
  request: Omit<NewToken, 'prefix' | 'hash'>,
  store: (token: NewToken) => Promise<TokenInfo>,
): Promise<{ secret: string; token: TokenInfo }> {
  const secret = createToken()
  const token = await store({ ...request, prefix: tokenPrefix(secret), hash: hashToken(secret) })
  return { secret, token }
}

/**
 * Returns when a new token expires: without a wish, as late as it may. Milliseconds since the
 * epoch; null: never.
 *
 * @param expiresAt what was asked for
 * @param maxLifetime milliseconds; null: it may live for ever
 * @throws Refusal if it would live longer
 */
export function boundExpiry(
  expiresAt: number | null,
  maxLifetime: number | null,
  now = Date.now(),
): number | null {
  if (maxLifetime === null) return expiresAt
  const latest = now + maxLifetime
  if (expiresAt === null || expiresAt <= latest) return expiresAt ?? latest
  throw new Refusal(`a token may expire at ${new Date(latest).toISOString()} at the latest`)
}

/**
 * Gives a token another secret, for as long as it was created for.
 *
 * @param overlap milliseconds for which the old secret still works
 * @returns the only copy of the secret, and when the two expire, in milliseconds since the epoch;
 * null: never
 * @throws Refusal if there is no such token, or it has expired
 */
export async function rotateToken(
  change: Change<Administrator>,
  tokens: Pick<Store['tokens'], 'rotate'>,
  id: string,
  overlap: number,
  maxLifetime: number | null,
): Promise<{ secret: string; expiresAt: number | null; oldExpiresAt: number }> {
  const secret = createToken()
  const now = Date.now()
  const rotated = await tokens.rotate(change, id, {
    prefix: tokenPrefix(secret),
    hash: hashToken(secret),
    // One that was created when more was allowed does not pass it on.
    expiresAt: (lifetime) => {
      const longest = Math.min(lifetime ?? Number.POSITIVE_INFINITY, maxLifetime ?? Number.POSITIVE_INFINITY)
      return longest === Number.POSITIVE_INFINITY ? null : now + longest
    },
    oldExpiresAt: now + overlap,
  })
  return { secret, ...rotated }
}

import type { Person } from '../domain/actors.ts'
import { Refusal } from '../domain/refusal.ts'
import type { TokenInfo } from '../store/accounts/shown-tokens.ts'
import type { NewToken } from '../store/accounts/tokens.ts'
import type { Change } from '../store/audit/change.ts'
import type { Store } from '../store/store.ts'
import type { Milliseconds } from '../store/time.ts'
import { createToken, hashToken, tokenPrefix } from './token.ts'

/** How long before a token expires people are warned. */
export const EXPIRES_SOON: Milliseconds = 7 * 86_400_000

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
 * Returns when a new token expires: without a wish, as late as it may. Since the epoch;
 * null: never.
 *
 * @param expiresAt what was asked for
 * @param maxLifetime null: it may live for ever
 * @throws Refusal if it would live longer
 */
export function boundExpiry(
  expiresAt: Milliseconds | null,
  maxLifetime: Milliseconds | null,
  now: Milliseconds = Date.now(),
): Milliseconds | null {
  if (maxLifetime === null) return expiresAt
  const latest = now + maxLifetime
  if (expiresAt === null || expiresAt <= latest) return expiresAt ?? latest
  throw new Refusal(`a token may expire at ${new Date(latest).toISOString()} at the latest`)
}

/**
 * Gives a token another secret, for as long as it was created for.
 *
 * @param overlap for which the old secret still works
 * @returns the only copy of the secret, and when the two expire, since the epoch; null: never
 * @throws Refusal if there is no such token, or it has expired
 */
export async function rotateToken(
  change: Change<Person>,
  tokens: Pick<Store['tokens'], 'rotate'>,
  id: string,
  overlap: Milliseconds,
  maxLifetime: Milliseconds | null,
): Promise<{ secret: string; expiresAt: Milliseconds | null; oldExpiresAt: Milliseconds }> {
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

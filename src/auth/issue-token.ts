import type { TokenLimits } from '../store/access/token-limits.ts'
import type { TokenInfo } from '../store/accounts/tokens.ts'
import type { Actor } from '../store/audit/audit.ts'
import type { Store } from '../store/store.ts'
import { createToken, hashToken, tokenPrefix } from './token.ts'

export interface TokenRequest {
  userId: number
  name: string
  scopes: string[]
  /** Milliseconds since the epoch; null: never expires. */
  expiresAt: number | null
  /** Default: it may do what its user may. */
  limits?: TokenLimits
}

/** Creates a token. Returns the only copy of the secret: the database stores a hash. */
export async function issueToken(
  tokens: Store['tokens'],
  request: TokenRequest,
  by: Actor,
): Promise<{ secret: string; token: TokenInfo }> {
  const secret = createToken()
  const token = await tokens.create({ ...request, prefix: tokenPrefix(secret), hash: hashToken(secret) }, by)
  return { secret, token }
}

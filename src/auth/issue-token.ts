import type { Store } from '../store/store.ts'
import type { TokenInfo } from '../store/tokens.ts'
import { createToken, hashToken, tokenPrefix } from './token.ts'

export interface TokenRequest {
  userId: number
  name: string
  scopes: string[]
  /** Milliseconds since the epoch; null: never. */
  expiresAt: number | null
}

/** Makes a token. The secret is in this answer and nowhere else: only a hash of it is stored. */
export async function issueToken(
  tokens: Store['tokens'],
  request: TokenRequest,
): Promise<{ secret: string; token: TokenInfo }> {
  const secret = createToken()
  const token = await tokens.create({ ...request, prefix: tokenPrefix(secret), hash: hashToken(secret) })
  return { secret, token }
}

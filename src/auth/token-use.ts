import type { Access } from '../store/access/access.ts'
import type { Store } from '../store/store.ts'
import { EXPIRES_SOON } from './issue-token.ts'

/** Minimum time between two writes of a token's last use, in seconds. */
const RESOLUTION = 60
/** How long uses are collected before they are written together, in milliseconds. */
const BATCH_DELAY = 1_000
/** Milliseconds between two warnings about a token. */
const WARN_EVERY = 86_400_000

type Token = NonNullable<Access['token']>

export interface TokenUseLog {
  warn(details: object, text: string): void
  error(details: object, text: string): void
}

/**
 * Records when tokens were last used, in the background: no request waits for the write. Logs
 * tokens in use that expire soon.
 */
export function createTokenUseTracker(tokens: Pick<Store['tokens'], 'touch'>, log: TokenUseLog) {
  const warnOfExpiry = createExpiryWarning(log)
  let uses = new Map<string, number>()
  let timer: NodeJS.Timeout | undefined
  let writing = Promise.resolve()

  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    const batch = uses
    uses = new Map()
    if (batch.size > 0) {
      writing = writing
        .then(() => tokens.touch(batch))
        .catch((error: unknown) => log.error({ err: error }, 'cannot write the last use of tokens'))
    }
    return writing
  }

  return {
    /** @param now seconds since the epoch */
    record(token: Token, now: number): void {
      if (token.lastUsedAt !== null && now - token.lastUsedAt < RESOLUTION) return
      uses.set(token.id, now)
      warnOfExpiry(token, now * 1000)
      timer ??= setTimeout(flush, BATCH_DELAY)
    },
    /** Writes pending uses. */
    close: flush,
  }
}

/**
 * Returns a function that warns once a day of each token that expires soon. Times are in
 * milliseconds.
 */
function createExpiryWarning(log: TokenUseLog) {
  const warned = new Set<string>()
  let warnedSince = 0

  return ({ id, name, userName, expiresAt }: Token, now: number): void => {
    if (expiresAt === null || expiresAt - now > EXPIRES_SOON) return
    if (now - warnedSince > WARN_EVERY) {
      warned.clear()
      warnedSince = now
    }
    if (warned.has(id)) return
    warned.add(id)
    const expiry = new Date(expiresAt).toISOString()
    const details = { user: userName, token_id: id, token_name: name, expires_at: expiry }
    log.warn(details, 'a token in use expires soon')
  }
}

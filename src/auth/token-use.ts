import type { Store } from '../store/store.ts'

/** Minimum time between two writes of a token's last use, in seconds. */
const RESOLUTION = 60
/** How long uses are collected before they are written together, in milliseconds. */
const BATCH_DELAY = 1_000

/** Records when tokens were last used, in the background: no request waits for the write. */
export function trackTokenUse(tokens: Store['tokens'], onError: (error: unknown) => void) {
  let uses = new Map<string, number>()
  let timer: NodeJS.Timeout | undefined
  let writing = Promise.resolve()

  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    const batch = uses
    uses = new Map()
    if (batch.size > 0) writing = writing.then(() => tokens.touch(batch)).catch(onError)
    return writing
  }

  return {
    /** @param now seconds since the epoch */
    record(token: { id: string; lastUsedAt: number | null }, now: number): void {
      if (token.lastUsedAt !== null && now - token.lastUsedAt < RESOLUTION) return
      uses.set(token.id, now)
      timer ??= setTimeout(flush, BATCH_DELAY)
    },
    /** Writes pending uses. */
    close: flush,
  }
}

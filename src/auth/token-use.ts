import type { Store } from '../store/store.ts'

/** A token's last use is written at most this often, in seconds. */
const RESOLUTION = 60
/** Milliseconds for which uses are gathered, so that a busy token costs no write a request. */
const GATHER = 1_000

/** Remembers when tokens were last used, without a request ever waiting for it. */
export function trackTokenUse(tokens: Store['tokens'], onError: (error: unknown) => void) {
  let uses = new Map<string, number>()
  let timer: NodeJS.Timeout | undefined
  let writing = Promise.resolve()

  const flush = () => {
    clearTimeout(timer)
    timer = undefined
    const gathered = uses
    uses = new Map()
    if (gathered.size > 0) writing = writing.then(() => tokens.touch(gathered)).catch(onError)
    return writing
  }

  return {
    /** @param now seconds since the epoch */
    used(token: { id: string; lastUsedAt: number | null }, now: number): void {
      if (token.lastUsedAt !== null && now - token.lastUsedAt < RESOLUTION) return
      uses.set(token.id, now)
      timer ??= setTimeout(flush, GATHER)
    },
    /** Writes what is gathered. */
    close: flush,
  }
}

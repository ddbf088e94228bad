import { setTimeout } from 'node:timers/promises'

/** How long a write is retried, and how often, in milliseconds. */
const WAIT = 20_000
const RETRY = 500

/**
 * Retries a write that must not be lost while the database is unavailable.
 *
 * @throws the last error
 */
export async function persist<T>(write: () => Promise<T>): Promise<T> {
  const since = performance.now()
  for (;;) {
    try {
      return await write()
    } catch (error) {
      if (performance.now() - since > WAIT) throw error
      await setTimeout(RETRY)
    }
  }
}

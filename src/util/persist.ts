import { setTimeout } from 'node:timers/promises'
import { Unavailable } from './expected-errors.ts'

/** How long a write is retried, and how often, in milliseconds. */
const WAIT = 20_000
const RETRY = 500

/**
 * Retries a write that must not be lost while the database is unavailable.
 *
 * @param write gets whether it is called again. What it wrote before may be stored: the connection may
 * have been lost before the answer to the commit
 * @throws the last error; at once any other than that of an unavailable database, which comes again
 */
export async function persist<T>(write: (isAgain: boolean) => Promise<T>): Promise<T> {
  const since = performance.now()
  for (let isAgain = false; ; isAgain = true) {
    try {
      return await write(isAgain)
    } catch (error) {
      if (!(error instanceof Unavailable) || performance.now() - since > WAIT) throw error
      await setTimeout(RETRY)
    }
  }
}

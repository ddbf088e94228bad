import { setImmediate } from 'node:timers/promises'

/**
 * Rows that take so long to read or to encode that others have a turn of the event loop in between:
 * a commit may have 1,000 contexts of 7 KB, and to read them, or to encode them, takes 30 ms.
 */
export const MANY_ROWS = 300

let last = Promise.resolve()

/** Resolves in a later turn of the event loop, in each turn for one caller. */
export function ownTurn(): Promise<void> {
  last = last.then(() => setImmediate())
  return last
}

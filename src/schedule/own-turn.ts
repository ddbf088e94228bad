import { setImmediate } from 'node:timers/promises'

/** One for the process, which has one event loop. */
let last = Promise.resolve()

/**
 * Resolves in a later turn of the event loop, in each turn for one caller, in order of arrival: for
 * what takes milliseconds and cannot be divided, such as the start of a process.
 */
export function ownTurn(): Promise<void> {
  last = last.then(() => setImmediate())
  return last
}

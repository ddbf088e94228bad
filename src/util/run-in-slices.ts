import { setImmediate } from 'node:timers/promises'
import { limitConcurrency } from './limit-concurrency.ts'

/** Milliseconds for which one slice blocks the event loop. */
const SLICE = 5

const oneSliceAtATime = limitConcurrency(1)

/**
 * Runs a long task without blocking the event loop: calls `step` until it returns false, for 5 ms in each turn of the event
 * loop. Each turn runs one slice in all; concurrent tasks take turns.
 *
 * @param step must be short, because a slice ends only between two steps
 */
export async function runInSlices(step: () => boolean): Promise<void> {
  let more = true
  const slice = async () => {
    await setImmediate()
    const end = performance.now() + SLICE
    do more = step()
    while (more && performance.now() < end)
  }
  while (more) await oneSliceAtATime(slice)
}

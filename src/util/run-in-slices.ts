import { setImmediate } from 'node:timers/promises'
import { limitConcurrency } from './limit-concurrency.ts'

/** Milliseconds for which work keeps the event loop from turning. */
const SLICE = 5

const servePipelinedInTurn = limitConcurrency(1)

/**
 * Runs long work without keeping the event loop from other work: calls `step` until it returns false, for 5 ms in one turn
 * of the event loop. Each turn has room for one slice, whatever it belongs to; several such works take turns.
 *
 * @param step has to be short, since a slice ends only after one
 */
export async function runInSlices(step: () => boolean): Promise<void> {
  let more = true
  const slice = async () => {
    await setImmediate()
    const end = performance.now() + SLICE
    do more = step()
    while (more && performance.now() < end)
  }
  while (more) await servePipelinedInTurn(slice)
}

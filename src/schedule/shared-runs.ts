import { Addresses } from './addresses.ts'
import type { QueueClient } from './fair-queue.ts'

/** For whom a run works. */
export interface RunClient {
  /** Of all who wait for its result, or for its end. */
  address: Addresses
  /** Aborts when no caller waits for the result any more. */
  signal: AbortSignal
}

type Work<T> = (client: RunClient) => Promise<T>

interface Run<T> {
  readonly result: Promise<T>
  readonly abort: AbortController
  readonly addresses: Addresses
  callers: number
  /** The run that this one waits for, until it begins. */
  previous: Run<T> | undefined
  state: 'waiting' | 'begun' | 'ended'
}

/**
 * Runs work once for all callers that ask for the same key at about the same time. Runs of a key
 * follow one another.
 *
 * ```
 *   no run of the key           ──▶ creates one, which begins in this turn of the event loop
 *   a run that has not begun    ──▶ joins it
 *   a run that has begun        ──▶ creates the next one, as this one may have missed a change
 *   the last caller has aborted ──▶ aborts the run; later callers join none that is aborted
 * ```
 *
 * For example, refs are listed by A, pushed, and then asked for by B and C. B must see the push,
 * which A's run may have missed, and C can share what B gets:
 *
 * ```
 *   A joins   run 1 begins ────────────── ends: A
 *   push         │
 *   B joins      │  run 2 waits for run 1 ─────── begins ─── ends: B, C
 *   C joins      │  run 2 has not begun
 * ```
 *
 * Where run 1 waits in a queue, the turn of any of A, B and C lets it go on. So nobody waits for the
 * turn of another one, who may have filled its own queue.
 */
export class SharedRuns<T> {
  /** The latest run of each key. */
  readonly #runs = new Map<string, Run<T>>()

  /**
   * Returns the result of a run that begins after this call.
   *
   * @param client its signal stops waiting and rejects with its reason
   */
  join(key: string, work: Work<T>, client?: QueueClient): Promise<T> {
    const latest = this.#runs.get(key)
    const isOpen = latest?.state === 'waiting' && !latest.abort.signal.aborted
    return wait(isOpen ? latest : this.#create(key, work, latest), client)
  }

  #create(key: string, work: Work<T>, latest: Run<T> | undefined): Run<T> {
    // A run that was aborted before it began does nothing. Runs that wait for such ones would form a chain.
    const previous = latest?.state === 'waiting' ? latest.previous : latest
    const abort = new AbortController()
    const addresses = new Addresses()
    const result = async () => {
      const leavePrevious = previous?.addresses.add(addresses)
      // Callers of that run get its error.
      await previous?.result.catch(() => {})
      leavePrevious?.()
      run.previous = undefined
      try {
        abort.signal.throwIfAborted()
        run.state = 'begun'
        return await work({ address: addresses, signal: abort.signal })
      } finally {
        run.state = 'ended'
        if (this.#runs.get(key) === run) this.#runs.delete(key)
      }
    }
    // In a microtask of its own, because `result` uses `run`.
    const run: Run<T> = {
      result: Promise.resolve().then(result),
      abort,
      addresses,
      callers: 0,
      previous,
      state: 'waiting',
    }
    this.#runs.set(key, run)
    return run
  }
}

async function wait<T>(run: Run<T>, { address, signal }: Partial<QueueClient> = {}): Promise<T> {
  run.callers++
  const leaveQueue = address && run.addresses.add(address)
  const aborted = Promise.withResolvers<never>()
  const leave = () => aborted.reject(signal?.reason)
  if (signal?.aborted) leave()
  signal?.addEventListener('abort', leave, { once: true })
  try {
    return await Promise.race([run.result, aborted.promise])
  } finally {
    signal?.removeEventListener('abort', leave)
    run.callers--
    if (leaveQueue) leaveQueue()
    if (run.callers === 0 && run.state !== 'ended') run.abort.abort(signal?.reason)
  }
}

/** Does the work of a run. @param signal aborts when no caller waits for the result any more */
type Work<T> = (signal: AbortSignal) => Promise<T>

interface Run<T> {
  readonly result: Promise<T>
  readonly abort: AbortController
  callers: number
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
 */
export class SharedRuns<T> {
  /** The latest run of each key. */
  readonly #runs = new Map<string, Run<T>>()

  /**
   * Returns the result of a run that begins after this call.
   *
   * @param signal stops waiting and rejects with its reason
   */
  join(key: string, work: Work<T>, signal?: AbortSignal): Promise<T> {
    const latest = this.#runs.get(key)
    const isOpen = latest?.state === 'waiting' && !latest.abort.signal.aborted
    return wait(isOpen ? latest : this.#create(key, work, latest), signal)
  }

  #create(key: string, work: Work<T>, previous: Run<T> | undefined): Run<T> {
    const abort = new AbortController()
    const result = async () => {
      // Whoever waits for that run learns why it failed.
      await previous?.result.catch(() => {})
      try {
        abort.signal.throwIfAborted()
        run.state = 'begun'
        return await work(abort.signal)
      } finally {
        run.state = 'ended'
        if (this.#runs.get(key) === run) this.#runs.delete(key)
      }
    }
    // In a microtask of its own, because `result` uses `run`.
    const run: Run<T> = { result: Promise.resolve().then(result), abort, callers: 0, state: 'waiting' }
    this.#runs.set(key, run)
    return run
  }
}

async function wait<T>(run: Run<T>, signal: AbortSignal | undefined): Promise<T> {
  run.callers++
  const aborted = Promise.withResolvers<never>()
  const leave = () => aborted.reject(signal?.reason)
  if (signal?.aborted) leave()
  signal?.addEventListener('abort', leave, { once: true })
  try {
    return await Promise.race([run.result, aborted.promise])
  } finally {
    signal?.removeEventListener('abort', leave)
    run.callers--
    if (run.callers === 0 && run.state !== 'ended') run.abort.abort(signal?.reason)
  }
}

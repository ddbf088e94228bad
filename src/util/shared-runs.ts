/** Does the work of a run. @param signal aborts when no caller waits for the result any more */
type Work<T> = (signal: AbortSignal) => Promise<T>

interface Run<T> {
  readonly result: Promise<T>
  readonly abort: AbortController
  callers: number
  begun: boolean
}

/**
 * Runs work once for all callers that ask for the same key at about the same time.
 *
 * ```
 *   no run in progress ──▶ begins a run
 *   a run in progress  ──▶ joins it (`join`), or joins the one that begins when it has ended (`joinNext`)
 *   last caller aborts ──▶ aborts the run; later callers begin another one
 * ```
 */
export class SharedRuns<T> {
  readonly #running = new Map<string, Run<T>>()
  readonly #next = new Map<string, Run<T>>()

  /** Joins a run in progress. For work whose result never changes. */
  join(key: string, work: Work<T>, signal?: AbortSignal): Promise<T> {
    const run = this.#running.get(key) ?? this.#create(this.#running, key, work)
    return this.#wait(key, run, signal)
  }

  /** Joins no run that began before this call, because it may not see what has changed since. */
  joinNext(key: string, work: Work<T>, signal?: AbortSignal): Promise<T> {
    const running = this.#running.get(key)
    if (running === undefined || !running.begun) return this.join(key, work, signal)
    const next = this.#next.get(key) ?? this.#create(this.#next, key, work, running.result)
    return this.#wait(key, next, signal)
  }

  #create(runs: Map<string, Run<T>>, key: string, work: Work<T>, after?: Promise<T>): Run<T> {
    const abort = new AbortController()
    const result = async () => {
      await after?.catch(() => {})
      if (this.#next.get(key) === run) {
        this.#next.delete(key)
        this.#running.set(key, run)
      }
      try {
        abort.signal.throwIfAborted()
        run.begun = true
        return await work(abort.signal)
      } finally {
        this.#forget(key, run)
      }
    }
    const run: Run<T> = { result: Promise.resolve().then(result), abort, callers: 0, begun: false }
    runs.set(key, run)
    return run
  }

  async #wait(key: string, run: Run<T>, signal: AbortSignal | undefined): Promise<T> {
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
      if (run.callers === 0) {
        this.#forget(key, run)
        run.abort.abort(signal?.reason)
      }
    }
  }

  #forget(key: string, run: Run<T>): void {
    for (const runs of [this.#running, this.#next]) if (runs.get(key) === run) runs.delete(key)
  }
}

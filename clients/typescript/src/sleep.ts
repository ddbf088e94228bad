/** The longest delay of a timer, in milliseconds; a longer one would end at once. */
export const LONGEST_TIMER = 2 ** 31 - 1

/**
 * Resolves after so many milliseconds, at once for less than none, or as soon as one of the signals
 * is aborted. Never rejects.
 */
export function sleep(milliseconds: number, ...signals: (AbortSignal | undefined)[]): Promise<void> {
  return new Promise((resolve) => {
    function end() {
      clearTimeout(timer)
      for (const signal of signals) signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, Math.max(0, Math.min(milliseconds, LONGEST_TIMER)))
    for (const signal of signals) signal?.addEventListener('abort', end)
    if (signals.some((signal) => signal?.aborted)) end()
  })
}

/** Settles as `promise` does, or rejects with the signal's reason as soon as it is aborted. */
export async function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise
  const settled = new AbortController()
  const aborted = new Promise<never>((_resolve, reject) => {
    const stop = () => reject(signal.reason)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true, signal: settled.signal })
  })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    settled.abort()
  }
}

/** Resolves when one of the signals is aborted. The signals keep what waits for it until then. */
export function anyAborted(...signals: AbortSignal[]): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of signals) {
      if (signal.aborted) resolve()
      signal.addEventListener('abort', () => resolve(), { once: true })
    }
  })
}

/**
 * Returns a signal that is aborted with a longer-lived one, unless `over` is aborted before. Then the
 * longer-lived one keeps nothing that listens to it.
 */
export function signalUntil(over: AbortSignal, longer: AbortSignal): AbortSignal {
  const own = new AbortController()
  const abort = () => own.abort(longer.reason)
  if (longer.aborted) abort()
  else longer.addEventListener('abort', abort, { once: true, signal: over })
  return own.signal
}

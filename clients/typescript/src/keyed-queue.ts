/** Runs a task once all earlier tasks of the same key have settled. */
export type KeyedQueue = <T>(key: string, task: (superseded: AbortSignal) => Promise<T>) => Promise<T>

/**
 * Creates a queue that runs tasks of one key in order of arrival and tasks of different keys side
 * by side. The signal of a task is aborted when a newer one waits behind it, so that it can stop
 * retrying.
 */
export function createKeyedQueue(): KeyedQueue {
  const last = new Map<string, { superseded: AbortController; settled: Promise<void> }>()
  return async (key, task) => {
    const previous = last.get(key)
    previous?.superseded.abort()
    const superseded = new AbortController()
    const result = (previous?.settled ?? Promise.resolve()).then(() => task(superseded.signal))
    const settled = result.then(
      () => {},
      () => {},
    )
    const place = { superseded, settled }
    last.set(key, place)
    try {
      return await result
    } finally {
      if (last.get(key) === place) last.delete(key)
    }
  }
}

/** Runs a task when all earlier tasks of the same key have ended. */
export type Line = <T>(key: string, task: (superseded: AbortSignal) => Promise<T>) => Promise<T>

/**
 * Keeps tasks of one key in the order in which they came; tasks of different keys know nothing of each other. A task's
 * signal is aborted when a newer one waits behind it, so that it can stop trying again.
 */
export function createLine(): Line {
  const last = new Map<string, { superseded: AbortController; ended: Promise<void> }>()
  return async (key, task) => {
    const previous = last.get(key)
    previous?.superseded.abort()
    const superseded = new AbortController()
    const result = (previous?.ended ?? Promise.resolve()).then(() => task(superseded.signal))
    const ended = result.then(
      () => {},
      () => {},
    )
    const place = { superseded, ended }
    last.set(key, place)
    try {
      return await result
    } finally {
      if (last.get(key) === place) last.delete(key)
    }
  }
}

/**
 * Memoizes a function for a bounded number of keys. Use it for keys that recur and values that cost
 * more to compute than to look up.
 *
 * @param limit maximum number of keys; all of them are dropped when it is reached
 */
export function boundedMemoize<Key, Value>(limit: number, make: (key: Key) => Value): (key: Key) => Value {
  const results = new Map<Key, Value>()
  return (key) => {
    const earlier = results.get(key)
    if (earlier !== undefined) return earlier
    if (results.size >= limit) results.clear()
    const value = make(key)
    results.set(key, value)
    return value
  }
}

/**
 * Memoizes a function by the identity of its argument. A result is kept as long as the argument
 * exists.
 *
 * @example
 * const text = memoizeByObject((rows: Row[]) => JSON.stringify(rows))
 * text(rows) === text(rows) // the second call does not serialize again
 */
export function memoizeByObject<Source extends object, Value>(
  make: (source: Source) => Value,
): (source: Source) => Value {
  const results = new WeakMap<Source, { value: Value }>()
  return (source) => {
    let result = results.get(source)
    if (result === undefined) {
      result = { value: make(source) }
      results.set(source, result)
    }
    return result.value
  }
}

let lastNumber = 0

/** Returns the number of an object: no two have the same. A part of keys. */
export const numberOf = memoizeByObject((_object: object) => ++lastNumber)

/** Memoizes a promise until it is rejected: then the next call tries again. */
export function memoizePromise<Value>(make: () => Promise<Value>): () => Promise<Value> {
  let memoized: Promise<Value> | undefined
  return () => {
    memoized ??= make().catch((error: unknown) => {
      memoized = undefined
      throw error
    })
    return memoized
  }
}

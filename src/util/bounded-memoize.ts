/**
 * Memoizes a function for the most recent keys. Use it for keys that recur and for values that cost more to make than
 * to look up.
 *
 * @param limit most keys; when it is reached, all of them are dropped
 */
export function boundedMemoize<Key, Value>(limit: number, make: (key: Key) => Value): (key: Key) => Value {
  const results = new Map<Key, Value>()
  return (key) => {
    const known = results.get(key)
    if (known !== undefined) return known
    if (results.size >= limit) results.clear()
    const value = make(key)
    results.set(key, value)
    return value
  }
}

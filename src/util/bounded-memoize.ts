/**
 * Memoizes a function for a bounded number of keys. Use it for keys that recur and values that cost more to compute than
 * to look up.
 *
 * @param limit maximum number of keys; all of them are dropped when it is reached
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

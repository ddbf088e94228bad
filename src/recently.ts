/**
 * Remembers what was made of the keys that came lately, for what comes again and again and costs more to make than to
 * look up.
 *
 * @param most keys; when there are more, it forgets them all and begins anew
 */
export function recently<Key, Value>(most: number, make: (key: Key) => Value): (key: Key) => Value {
  const made = new Map<Key, Value>()
  return (key) => {
    const known = made.get(key)
    if (known !== undefined) return known
    if (made.size >= most) made.clear()
    const value = make(key)
    made.set(key, value)
    return value
  }
}

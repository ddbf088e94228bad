/**
 * Memoizes a function by the identity of its argument. A result is kept as long as the argument exists.
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
    let known = results.get(source)
    if (known === undefined) {
      known = { value: make(source) }
      results.set(source, known)
    }
    return known.value
  }
}

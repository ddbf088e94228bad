/**
 * Makes a value from an object once, for as long as that object lives.
 *
 * @example
 * const text = onceFor((rows: Row[]) => JSON.stringify(rows))
 * text(rows) === text(rows) // and the second call made nothing
 */
export function onceFor<Source extends object, Value>(
  make: (source: Source) => Value,
): (source: Source) => Value {
  const made = new WeakMap<Source, { value: Value }>()
  return (source) => {
    let known = made.get(source)
    if (known === undefined) {
      known = { value: make(source) }
      made.set(source, known)
    }
    return known.value
  }
}

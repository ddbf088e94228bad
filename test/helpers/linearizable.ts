/** A write or a read of a register, with the times at which it was called and answered. */
export interface RegisterOperation {
  kind: 'write' | 'read'
  /** No two writes have the same. */
  value: string
  called: number
  /** Infinity for a write without an answer: it may happen at any time, or never. */
  answered: number
}

/** What a register holds before the first write. */
export const INITIAL = ''

/**
 * Returns why no order of the operations explains a history of one register, or null if there is
 * one in which each operation happens between its call and its answer.
 *
 * Follows Gibbons and Korach, "Testing Shared Memories" (1997), for writes of different values: a
 * value and its reads occupy a zone, from the first answer to the last call among them. If the
 * answer comes first, the register must have held the value all the time between. Such zones must
 * not overlap, and none may contain all operations of another value.
 */
export function whyNotLinearizable(history: readonly RegisterOperation[]): string | null {
  const values = new Map<string, { write: RegisterOperation | undefined; first: number; last: number }>()
  const initial: RegisterOperation = {
    kind: 'write',
    value: INITIAL,
    called: Number.NEGATIVE_INFINITY,
    answered: Number.NEGATIVE_INFINITY,
  }
  for (const operation of [initial, ...history]) {
    const { kind, value, called, answered } = operation
    const zone = values.get(value) ?? { write: undefined, first: answered, last: called }
    zone.first = Math.min(zone.first, answered)
    zone.last = Math.max(zone.last, called)
    if (kind === 'write') zone.write = operation
    values.set(value, zone)
  }

  const zones = [...values].map(([value, zone]) => ({ value, ...zone }))
  for (const { kind, value, answered } of history) {
    const write = values.get(value)?.write
    if (kind === 'read' && (write === undefined || write.called > answered))
      return `"${value}" was read before it was written`
  }
  const held = zones.filter(({ first, last }) => first < last).sort((a, b) => a.first - b.first)
  for (const [index, zone] of held.entries()) {
    const next = held[index + 1]
    if (next && next.first < zone.last) return `"${zone.value}" and "${next.value}" were both there at once`
    for (const { value, first, last } of zones)
      if (last <= first && zone.first < last && first < zone.last)
        return `"${value}" was there while "${zone.value}" was`
  }
  return null
}

/**
 * Says who may report which context, written from the description of reservations: it shares nothing
 * with the server. A user is a number that no other user ever has, also not one of the same name.
 */
export interface ModelReservation {
  pattern: string
  users: readonly number[]
}

/** What of a report decides whether it is taken. */
export interface ModelReport {
  context: string
  state: string
  run?: string | undefined
}

/**
 * Returns whether a pattern matches a text: a table of which beginnings of the text each beginning of
 * the pattern matches.
 */
function globMatches(pattern: string, text: string): boolean {
  const points = [...text]
  let row = [true, ...points.map(() => false)]
  for (const letter of pattern) {
    const next: boolean[] = [letter === '*' && row[0] === true]
    for (const [index, point] of points.entries())
      next.push(
        letter === '*'
          ? next[index] === true || row[index + 1] === true
          : row[index] === true && point === letter,
      )
    row = next
  }
  return row.at(-1) === true
}

/** Returns whether one pattern matches all that another one matches, as far as filled asterisks tell. */
function contains(outer: string, inner: string): boolean {
  let texts = ['']
  for (const letter of inner)
    texts = texts.flatMap((text) =>
      (letter === '*' ? ['', '\u{1F6F0}', 'a/\u{1F6F0}b'] : [letter]).map((part) => text + part),
    )
  return texts.every((text) => globMatches(outer, text))
}

/** Returns the users who may report a context; null: everybody who may write. */
export function reportersIn(reservations: readonly ModelReservation[], context: string): number[] | null {
  const lists = reservations.filter(({ pattern }) => globMatches(pattern, context)).map(({ users }) => users)
  if (lists.length === 0) return null
  return [...new Set(lists.flat())].filter((user) => lists.every((users) => users.includes(user)))
}

/**
 * Returns what becomes of a report by a writer.
 *
 * @param limits patterns of the only contexts that the token may report; null: all
 */
export function decide(
  reservations: readonly ModelReservation[],
  user: number,
  limits: readonly string[] | null,
  { context, state, run }: ModelReport,
): 'taken' | 'limited' | 'reserved' {
  if (limits && !limits.some((pattern) => globMatches(pattern, context))) return 'limited'
  if (state === 'pending' && run === undefined) return 'taken'
  const users = reportersIn(reservations, context)
  return users === null || users.includes(user) ? 'taken' : 'reserved'
}

/** Returns whether a reservation can be set beside those of other patterns. */
export function maySet(others: readonly ModelReservation[], { pattern, users }: ModelReservation): boolean {
  if (users.length === 0 || users.length > 20 || others.length >= 20) return false
  return others.every(
    (other) =>
      !(contains(other.pattern, pattern) || contains(pattern, other.pattern)) ||
      other.users.some((user) => users.includes(user)),
  )
}

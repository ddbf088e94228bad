import { LRUCache } from 'lru-cache'
import { memoizeByObject } from '../util/memoize.ts'
import { entriesUpTo } from '../util/memory.ts'
import { matchesPattern, patternMatcher } from './patterns.ts'
import { Refusal } from './refusal.ts'

/** Contexts that only some users may report. */
export interface Reservation {
  /** Of contexts, as those of a token. */
  pattern: string
  /** Ids, 1 to `MAX_USERS`. Those of deleted users stay, so that a pattern never becomes open by itself. */
  users: readonly number[]
}

const MAX_RESERVATIONS = 20
/** Maximum number of users who may report the contexts of one pattern. */
export const MAX_USERS = 20

/** What a damaged list becomes: nobody may report anything. */
const ANY = '*'
const CLOSED: readonly Reservation[] = [{ pattern: ANY, users: [] }]
/** Repositories whose lists are remembered. */
const REPOSITORIES = 1_000

/**
 * Creates a function that returns the stored list of a repository: the same one while the text is
 * equal. Comparing two long texts takes a tenth of the time of finding one of them in a map.
 */
export function createReservationReader() {
  const latest = new LRUCache<number, { text: string; reservations: readonly Reservation[] }>(
    entriesUpTo(REPOSITORIES),
  )
  return (repositoryId: number, text: string): readonly Reservation[] => {
    const earlier = latest.get(repositoryId)
    if (earlier?.text === text) return earlier.reservations
    const reservations = readReservations(text)
    latest.set(repositoryId, { text, reservations })
    return reservations
  }
}

/** Returns a stored list. */
export function readReservations(text: string): readonly Reservation[] {
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) && value.every(isReservation) ? value : CLOSED
  } catch (error) {
    if (error instanceof SyntaxError) return CLOSED
    throw error
  }
}

function isReservation(value: unknown): value is Reservation {
  if (typeof value !== 'object' || value === null || !('pattern' in value) || !('users' in value))
    return false
  const { pattern, users } = value
  return (
    typeof pattern === 'string' &&
    Array.isArray(users) &&
    users.every((id: unknown) => typeof id === 'number')
  )
}

const compile = memoizeByObject((reservations: readonly Reservation[]) =>
  reservations.map(({ pattern, users }) => ({ matches: patternMatcher(pattern), users })),
)

/**
 * Returns who may report a context: the users whom each pattern names that matches it; null if none
 * does, so anybody who may write.
 */
export function reportersOf(reservations: readonly Reservation[], context: string): readonly number[] | null {
  return compile(reservations)
    .filter(({ matches }) => matches(context))
    .reduce<readonly number[] | null>(
      (users, { users: named }) => users?.filter((id) => named.includes(id)) ?? named,
      null,
    )
}

/** Returns whether everybody who may write may report some context that a pattern matches. */
export function isOpen(reservations: readonly Pick<Reservation, 'pattern'>[], pattern: string): boolean {
  // As a text, a pattern is matched by those that contain it: only `*` matches its `*`.
  return !reservations.some((reservation) => matchesPattern(reservation.pattern, pattern))
}

/**
 * Checks that a reservation can be added to others.
 *
 * @throws Refusal for too many, and if a pattern contains the other one and nobody may report what
 * both match
 */
export function checkReservation(others: readonly Reservation[], added: Reservation): void {
  if (others.length >= MAX_RESERVATIONS)
    throw new Refusal(
      `the repository has ${others.length} patterns already; at most ${MAX_RESERVATIONS} are allowed`,
    )
  if (added.users.length > MAX_USERS)
    throw new Refusal(`${added.users.length} users; at most ${MAX_USERS} are allowed`)
  for (const other of others) {
    const isNested = !isOpen([other], added.pattern) || !isOpen([added], other.pattern)
    if (isNested && !other.users.some((id) => added.users.includes(id)))
      throw new Refusal(
        `nobody could report what both "${added.pattern}" and "${other.pattern}" match: name a user of the other pattern too`,
      )
  }
}

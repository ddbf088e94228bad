import { sql } from 'kysely'
import type { DialectSql } from '../engine.ts'
import type { Milliseconds, Seconds } from '../time.ts'

/** Failed attempts of one address in its current window. */
export interface Failures {
  failures: number
  /** How long until the window ends. */
  endsIn: Milliseconds
}

/** Limits of one address, the same in every process. */
export interface FailureLimits {
  /** Failures in one window. */
  limit: number
  /** Length of a window. It starts with the address's first failure. */
  window: Seconds
}

/** What a failed attempt was an attempt at. */
export interface FailedAttempt {
  at: 'token' | 'sign-in' | 'password' | 'metrics'
  /** The existing user whose password was tried. */
  user?: { id: number; name: string } | undefined
}

/**
 * Returns the cache key of what requests of an address read about its failures and their access.
 */
export function accessKey(address: string): string {
  return `access ${address}`
}

/** Selects the failures of an address's window, and how much of it is left. */
export function failureColumns(dialect: DialectSql) {
  return [
    'auth_failures.failures' as const,
    sql<number>`auth_failures.ends_at - ${sql.raw(dialect.now)}`.as('endsIn'),
  ] as const
}

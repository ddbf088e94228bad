import { DatabaseError } from 'pg'
import { ForeignKeyViolation, StoreUnavailable } from '../engine.ts'

/**
 * SQLSTATEs of a server that is away, full, overloaded or no longer the primary, as opposed to a statement that is
 * wrong: connection, wrong credential (they may be changing just now), database not there, insufficient resources,
 * cancelled by a time limit, shutdown, system error.
 */
const AWAY = /^(08|28|3D|53|57|58|25006|25P03|55P03|XX001|XX002)/
/** Of these, the ones after which the connection, and most likely every other, leads nowhere. */
const LOST = /^(08|57P|25006|25P03)/
/** Of these, the ones of a disk that is full or broken. */
const DISK = /^(53100|58030)/
/** Lost to a concurrent transaction; nothing was done, and doing it again may succeed. */
const BEATEN = /^(40001|40P01)/
/** How often such a transaction runs. */
const ATTEMPTS = 5
const FOREIGN_KEY = '23503'

/**
 * A fault of the connection, the server or its disk becomes StoreUnavailable, a row that refers to nothing
 * ForeignKeyViolation; any other error stays what it is.
 */
export function translateError(error: unknown): unknown {
  if (error instanceof StoreUnavailable) return error
  const code = sqlStateOf(error)
  if (code === FOREIGN_KEY) return new ForeignKeyViolation('PostgreSQL', { cause: error })
  const away = code === undefined ? isConnectionFault(error) : AWAY.test(code) || BEATEN.test(code)
  return away ? new StoreUnavailable(`PostgreSQL: ${describe(error)}`, { cause: error }) : error
}

/** Whether the connection on which a statement met this error must not be used again. */
export function isLost(error: unknown): boolean {
  const code = sqlStateOf(error)
  return code === undefined ? isConnectionFault(error) : LOST.test(code)
}

/** Whether the error is that of a disk that is full or broken, as `translateError` gives it. */
export function isDiskError(error: unknown): error is StoreUnavailable {
  return error instanceof StoreUnavailable && DISK.test(sqlStateOf(error.cause) ?? '')
}

/**
 * Runs `work` again where other transactions got in its way and undid it, a few times at most.
 *
 * @throws what `translateError` makes of its error
 */
export async function retry<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      const code = sqlStateOf(error)
      if (attempt === ATTEMPTS || code === undefined || !BEATEN.test(code)) throw translateError(error)
    }
  }
}

function sqlStateOf(error: unknown): string | undefined {
  return error instanceof DatabaseError ? error.code : undefined
}

/** What `pg` throws without a SQLSTATE is about its connection, unless it was called wrongly. */
function isConnectionFault(error: unknown): boolean {
  return error instanceof Error && !(error instanceof TypeError) && !(error instanceof RangeError)
}

/** An error about several addresses of one host has a code, but no message. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.message || ('code' in error ? String(error.code) : error.name)
}

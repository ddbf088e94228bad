import { DatabaseError } from 'pg'
import { isSystemError } from '../../util/expected-errors.ts'
import {
  ForeignKeyViolation,
  PermissionDenied,
  StoreUnavailable,
  UniqueViolation,
  WrittenTooLate,
} from '../engine.ts'

/**
 * SQLSTATEs of a server that is unreachable, full, overloaded or no longer the primary, as opposed
 * to those of a wrong statement: connection, wrong credential (it may be changing right now),
 * missing database, insufficient resources, cancelled by a time limit, shutdown, system error.
 */
const UNAVAILABLE = /^(08|28|3D|53|57|58|25006|25P03|55P03|XX001|XX002)/
/** Of these, the ones after which this connection, and most likely every other one, is unusable. */
const LOST = /^(08|57P|25006|25P03)/
/** Of these, the ones of a disk that is full or broken. */
const DISK = /^(53100|58030)/
/** Canceled by a time limit. */
const TIMED_OUT = '57014'
/**
 * Conflicts with a concurrent transaction: this one was rolled back, and running it again may
 * succeed.
 */
const CONFLICT = /^(40001|40P01)/
/**
 * What a statement was rolled back for that others of its batch may not share: data, a constraint, a
 * conflict, a limit of a value, a wait for a lock, a trigger, a damaged row, time that has passed.
 */
const ROLLED_BACK = /^(22|23|40001|40P01|54|55P03|P0|XX|ZL001)/
const LOCK_TIMEOUT = '55P03'
/** Raised by functions of ours that have waited for longer than they may: a code that PostgreSQL leaves free. */
export const TOO_LATE = 'ZL001'
/** Maximum number of attempts after conflicts. */
const ATTEMPTS = 5
const FOREIGN_KEY = '23503'
const UNIQUE = '23505'
const PERMISSION = '42501'

/** How codes of Node begin that are about the system, sockets, TLS or certificates. */
const NODE_CODE =
  /^(E(?!RR_)|ERR_(SSL|TLS|STREAM|SOCKET_CLOSED)|UNABLE_TO|CERT|DEPTH|SELF_SIGNED|HOSTNAME|INVALID_(CA|PURPOSE)|PATH_LENGTH)/
/** Codes of a certificate of the server that is not accepted. */
const CERTIFICATE = /^(UNABLE_TO|CERT|DEPTH|SELF_SIGNED|HOSTNAME|ERR_TLS_CERT|INVALID_|PATH_LENGTH)/
/** How messages of `pg` begin that are about the connection and have no code. */
export const CONNECTION_MESSAGES = [
  'Connection terminated',
  'timeout expired',
  'timeout exceeded when trying to connect',
  'Query read timeout',
  'Client has encountered a connection error and is not queryable',
  'Client was closed and is not queryable',
  'The server does not support SSL connections',
  'There was an error establishing an SSL connection',
  // What the server sends is no answer to what it was asked, or no proof that it knows the password.
  'Received unexpected ',
  'Unknown authenticationOk message type',
  'SASL: ',
]

/**
 * Returns StoreUnavailable for an error of the connection, the server or its disk,
 * ForeignKeyViolation for a reference to a missing row, UniqueViolation, PermissionDenied,
 * WrittenTooLate, and any other error unchanged.
 *
 * @param isConnecting whether a connection could not be opened, which says nothing of a statement
 */
export function translateError(error: unknown, isConnecting = false): unknown {
  if (error instanceof StoreUnavailable) return error
  const code = sqlStateOf(error)
  if (code === FOREIGN_KEY) return new ForeignKeyViolation('PostgreSQL', { cause: error })
  if (code === UNIQUE) return new UniqueViolation(`PostgreSQL: ${describe(error)}`, { cause: error })
  if (code === TOO_LATE) return new WrittenTooLate(`PostgreSQL: ${describe(error)}`, { cause: error })
  // A role may also lack the right to connect, which it may be granted at any time.
  if (code === PERMISSION && !isConnecting)
    return new PermissionDenied(`PostgreSQL: ${describe(error)}`, { cause: error })
  const unavailable =
    code === undefined
      ? isConnectionError(error)
      : isConnecting || UNAVAILABLE.test(code) || CONFLICT.test(code)
  return unavailable ? new StoreUnavailable(`PostgreSQL: ${describe(error)}`, { cause: error }) : error
}

/** Returns whether the connection of a statement with this error must not be used again. */
export function isLost(error: unknown): boolean {
  const code = sqlStateOf(error)
  return code === undefined ? isConnectionError(error) : LOST.test(code)
}

/**
 * Returns whether the statement ran into a time limit. The connection works, but may lead to a
 * former primary that was cut off: there, commits wait for a standby without end, and other
 * statements wait for the locks that they hold.
 */
export function isTimeout(error: unknown): boolean {
  return sqlStateOf(error) === TIMED_OUT
}

/**
 * Returns whether a statement with this untranslated error has certainly changed nothing, and may
 * succeed without one of its calls.
 */
export function isRolledBack(error: unknown): boolean {
  return error instanceof DatabaseError && ROLLED_BACK.test(error.code ?? '')
}

/** Returns whether a statement with this error, translated or not, has waited for a lock for as long as it may. */
export function isLockTimeout(error: unknown): boolean {
  return sqlStateOf(error) === LOCK_TIMEOUT
}

/** Returns whether an error from `translateError` says that the disk is full or broken. */
export function isDiskError(error: unknown): error is StoreUnavailable {
  return error instanceof StoreUnavailable && DISK.test(sqlStateOf(error) ?? '')
}

/** Runs `work`, and again after conflicts with other transactions. */
export async function retry<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (attempt === ATTEMPTS || !CONFLICT.test(sqlStateOf(error) ?? '')) throw error
    }
  }
}

/** Returns the SQLSTATE of an error of `pg`, or of its translation. */
function sqlStateOf(error: unknown): string | undefined {
  const cause = error instanceof StoreUnavailable ? error.cause : error
  return cause instanceof DatabaseError ? cause.code : undefined
}

/** Returns whether an error without a SQLSTATE is about the connection. Others are bugs. */
function isConnectionError(error: unknown): boolean {
  // The server speaks another protocol.
  if (isSystemError(error) || error instanceof DatabaseError) return true
  if (!(error instanceof Error)) return false
  if ('code' in error) return NODE_CODE.test(String(error.code))
  return CONNECTION_MESSAGES.some((message) => error.message.startsWith(message))
}

/**
 * Returns the message of an error, with what to do about a certificate. An AggregateError of several addresses of a host has only a
 * code.
 */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const code = 'code' in error ? String(error.code) : ''
  return CERTIFICATE.test(code)
    ? `${error.message} (the certificate is checked, also with sslmode=require: its CA can be named with sslrootcert=FILE)`
    : error.message || code || error.name
}

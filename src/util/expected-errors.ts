/**
 * An error that people can act on. Its message says what is wrong, and its stack would not help.
 */
export abstract class ExpectedError extends Error {}

/**
 * The database, a repository or a queue cannot serve a request now. Trying again later may help.
 */
export abstract class Unavailable extends ExpectedError {}

/** Returns what to print about an error that ends a program: its message, or the stack of a bug. */
export function describeFailure(error: unknown): string {
  if (isExpected(error)) return error.message
  return (error instanceof Error && error.stack) || String(error)
}

/** Returns whether people can act on an error: those of the system are expected too. */
export function isExpected(error: unknown): error is Error {
  return error instanceof ExpectedError || isSystemError(error)
}

/** Returns whether an error is a failed call of the operating system, as opposed to a bug. */
export function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error
}

/** Returns whether an error has one of these codes, of the system or of Node. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code))
}

/** Returns whether a system call failed because there is no such file or folder. */
export function isMissing(error: unknown): boolean {
  return hasCode(error, 'ENOENT')
}

/** Returns no entries of a folder that does not exist, and throws any other error. */
export function emptyWhenMissing(error: unknown): [] {
  if (isMissing(error)) return []
  throw error
}

/** Returns null instead of an error of the system, and throws any other. */
export function nullOnSystemError(error: unknown): null {
  if (isSystemError(error)) return null
  throw error
}

/** Returns a handler that gives `value` instead of an error of a class, and throws any other. */
export function insteadOf<T>(expected: abstract new (...values: never[]) => Error, value: T) {
  return (error: unknown): T => {
    if (error instanceof expected) return value
    throw error
  }
}

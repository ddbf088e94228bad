/** Returns whether an error is a failed call of the operating system, as opposed to a bug. */
export function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error
}

/** Returns whether an error has one of these codes, of the system or of Node. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code))
}

/** Handles a rejected promise: returns null if a call of the operating system failed, throws any other error. */
export function nullOnSystemError(error: unknown): null {
  if (isSystemError(error)) return null
  throw error
}

/** Returns whether an error has one of these codes, of the system or of Node. */
export function hasCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code))
}

/** Returns whether an error is that of a system call, and not of the program. */
export function isSystemError(error: unknown): boolean {
  return error instanceof Error && 'syscall' in error
}

/** Handles a rejected call whose failure does not matter. @throws errors of the program */
export function ignoreSystemError(error: unknown): void {
  if (!isSystemError(error)) throw error
}

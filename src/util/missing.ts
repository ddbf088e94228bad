import { hasCode } from '../errors.ts'

/** Returns whether a system call failed because there is no such file or folder. */
export function isMissing(error: unknown): boolean {
  return hasCode(error, 'ENOENT')
}

/**
 * Handles a rejected `readdir`: returns no entries if the folder does not exist, throws any other
 * error.
 */
export function emptyWhenMissing(error: unknown): [] {
  if (isMissing(error)) return []
  throw error
}

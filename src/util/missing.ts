/** Whether a system call failed because there is no such file or folder. */
export function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}

/** Handles the rejection of a `readdir`: a folder that is not there has no entries. Throws any other error. */
export function emptyWhenMissing(error: unknown): [] {
  if (isMissing(error)) return []
  throw error
}

/** The command line is invalid: exit code 2. */
export class UsageError extends Error {
  override name = 'UsageError'
}

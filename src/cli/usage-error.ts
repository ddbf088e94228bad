/** The command was not written rightly: exit code 2. */
export class UsageError extends Error {
  override name = 'UsageError'
}

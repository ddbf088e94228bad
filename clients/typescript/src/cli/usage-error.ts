/** The command line cannot be carried out as it was written. */
export class UsageError extends Error {
  override name = 'UsageError'
}

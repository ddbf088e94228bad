/** Exit codes of the commands; `run` ends with the exit code of its command. */
export const exitCodes = {
  success: 0,
  /** A context that counts is `failure` or `error`. */
  failure: 1,
  /** Usage error, or a value that the service refuses as invalid. */
  usage: 2,
  /** Still pending at the timeout, or nothing was reported. */
  pending: 3,
  /** A pending report is older than `--stalled`. */
  stalled: 3,
  /** A required context was not reported. */
  missing: 4,
  /** The service could not be reached, or refused. */
  unanswered: 5,
  /** The commit and the branch cannot be merged. */
  conflict: 6,
  /** No rule matches the branch, so that no check is required. */
  noRules: 7,
} as const

/** Returns the exit code for an answer other than success. */
export function exitCodeOf({ status }: { status: number }): number {
  return status === 422 ? exitCodes.usage : exitCodes.unanswered
}

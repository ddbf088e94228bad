/** What the commands end with, `run` apart, which ends with its command's own code. */
export const exitCodes = {
  success: 0,
  /** The combined state is `failure`. */
  failure: 1,
  /** Wrong usage, or a value that the service refuses as invalid. */
  usage: 2,
  /** Still pending, or nothing reported at all, at the timeout. */
  pending: 3,
  /** A required context never reported. */
  missing: 4,
  /** The service was not reached, or refused. */
  unanswered: 5,
} as const

/** The exit code for an answer that is no success. */
export function exitCodeOf({ status }: { status: number }): number {
  return status === 422 ? exitCodes.usage : exitCodes.unanswered
}

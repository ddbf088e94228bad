/** Exit codes of the commands; `run` ends with the exit code of its command. */
export const exitCodes = {
  success: 0,
  /** A context that counts is `failure` or `error`. */
  failure: 1,
  /** Usage error, or a value that the service refuses as invalid. */
  usage: 2,
  /** Still pending at the timeout, nothing was reported, or none of many commits has passed. */
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

const ALL = ['report', 'run', 'work', 'get', 'wait', 'last-passed', 'branches', 'land', 'gate']

/** What each exit code means, and the commands that end with it: the table of `--help` and the README. */
export const exitCodeTable: readonly { code: number; meaning: string; commands: readonly string[] }[] = [
  { code: exitCodes.success, meaning: 'done; what was waited for has passed', commands: ALL },
  {
    code: exitCodes.failure,
    meaning: 'a check failed, or the update is refused',
    commands: ['work', 'wait', 'land', 'gate'],
  },
  { code: exitCodes.usage, meaning: 'usage error, or a missing or invalid value', commands: ALL },
  {
    code: exitCodes.pending,
    meaning: 'at the timeout a check was pending or nothing was reported, or a report is stalled',
    commands: ['wait', 'land'],
  },
  {
    code: exitCodes.pending,
    meaning: 'no commit passed among those looked at; the message says where to go on',
    commands: ['last-passed'],
  },
  {
    code: exitCodes.missing,
    meaning: 'at the timeout a required check had not reported',
    commands: ['wait', 'land'],
  },
  {
    code: exitCodes.unanswered,
    meaning: 'the service cannot be reached, or refuses',
    commands: ALL.filter((name) => name !== 'gate'),
  },
  { code: exitCodes.conflict, meaning: 'the commit and the branch conflict', commands: ['land'] },
  {
    code: exitCodes.noRules,
    meaning: 'no rule matches the branch',
    commands: ['wait', 'last-passed', 'land'],
  },
]

/** Returns the exit code for an answer other than success. */
export function exitCodeOf({ status }: { status: number }): number {
  return status === 422 ? exitCodes.usage : exitCodes.unanswered
}

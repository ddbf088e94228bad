import { shellQuote } from '../util/shell-quote.ts'
import { patternMatcher } from './patterns.ts'

/** A check of a commit that has ended, and who reported it. */
export interface Result {
  sha: string
  context: string
  /** The name that the user had; null: the report is older than the record of names. */
  user: string | null
  /** Seconds since the epoch. */
  reportedAt: number
}

/** A user, who has had the name since `createdAt`, in seconds since the epoch. */
export interface Reporter {
  name: string
  createdAt: number
}

/** Returns whether a user reported a result. Earlier, another user may have had the name. */
export function isReportedBy({ user, reportedAt }: Result, { name, createdAt }: Reporter): boolean {
  return user === name && reportedAt >= createdAt
}

/** Returns the results of contexts that match a pattern which none of the users reported. */
export function resultsByOthers(
  { pattern, users }: { pattern: string; users: readonly Reporter[] },
  results: readonly Result[],
): Result[] {
  const matches = patternMatcher(pattern)
  return results.filter(
    (result) => matches(result.context) && !users.some((user) => isReportedBy(result, user)),
  )
}

/** Says that a user whom a reservation names cannot report, see `listUnable`. */
export function noteOnUnable(name: string): string {
  return `${name} cannot report: without write access, or locked`
}

/** Says what a reservation does not undo; null if there is nothing. @param commits that were looked at */
export function noteOnResults(results: readonly Result[], commits: number): string | null {
  if (results.length === 0) return null
  const affected = new Set(results.map(({ sha }) => sha)).size
  return `${affected} of the newest ${commits} commits of branches with rules ${affected === 1 ? 'has' : 'have'} a result by somebody else, which stays until it is deleted`
}

/** Returns the command that deletes a result. */
export function deletingCommand(fullName: string, { sha, context }: Result): string {
  return `commit-status-admin status delete ${fullName} ${sha} ${shellQuote(context)}`
}

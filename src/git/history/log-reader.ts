import { isFullId } from '../../domain/commit-id.ts'
import { truncate } from '../../util/truncate.ts'
import { RepositoryUnavailable } from '../errors.ts'
import type { OpenedRepository } from '../opened-repository.ts'
import { type ListLimits, RecordParser, readDate } from '../record-parser.ts'
import { runGit } from '../run-git.ts'

/** A commit for display. */
export interface Commit {
  sha: string
  /** At most 18 of them. */
  parents: string[]
  author: string
  /** Author date, ISO 8601 in UTC; null if the commit has no valid date. */
  date: string | null
  subject: string
}

const FORMAT = ['%H', '%P', '%an', '%aI', '%s'].join('%x00')
/** Maximum number of code points of an author or subject. Longer text is cut. */
const TEXT_LENGTH = 300
const LIMITS = {
  fields: 5,
  /** Bytes that hold one code point more than that. */
  fieldLength: 4 * (TEXT_LENGTH + 1),
  outputLength: 32 * 1024 * 1024,
}

/**
 * Reads commits in the order of `git log`: newest first, a commit never before its children unless
 * clocks were wrong.
 *
 * @param starts full ids of the commits to start from, or `HEAD`; what an id after `^` contains is left
 * out. Returns an empty list if HEAD is a branch without commits
 */
export async function readLog(
  repository: OpenedRepository,
  starts: 'HEAD' | readonly string[],
  limits: ListLimits,
  signal?: AbortSignal,
): Promise<Commit[]> {
  const parser = new RecordParser(LIMITS)
  const form = ['log', '-z', '--no-show-signature', `--max-count=${limits.count}`, `--format=${FORMAT}`]
  const args = [...form, ...(starts === 'HEAD' ? ['HEAD'] : starts), '--']
  const failure = await runGit(repository, args, parser, limits.timeout, signal)
  if (failure === undefined) return parser.records.map(toCommit)
  if (
    starts === 'HEAD' &&
    /unknown revision|bad revision 'HEAD'|does not have any commits/.test(failure.message)
  )
    return []
  const { path } = repository
  throw new RepositoryUnavailable(`git could not list the commits of ${path}: ${failure.message}`)
}

function toCommit([sha = '', parents = '', author = '', date = '', subject = '']: string[]): Commit {
  return {
    sha,
    // The last one may be cut.
    parents: parents.split(' ').filter((parent) => isFullId(parent)),
    author: truncate(author, TEXT_LENGTH),
    date: readDate(date),
    subject: truncate(subject, TEXT_LENGTH),
  }
}

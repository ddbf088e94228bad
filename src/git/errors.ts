import { ExpectedError, isSystemError, Unavailable } from '../util/expected-errors.ts'

/** The repository cannot be opened, so its content is unknown. */
export class RepositoryUnavailable extends Unavailable {
  override readonly name = 'RepositoryUnavailable'
}

/** git did not answer in time. */
export class GitTimeout extends RepositoryUnavailable {}

/** No repository can be opened at a path; the message names the path and the reason. */
export class NotARepository extends ExpectedError {
  override readonly name = 'NotARepository'
}

/** git did not succeed. The message is the end of its standard error, or says how git ended. */
export class GitFailed extends ExpectedError {
  override readonly name = 'GitFailed'
  /** null if git was killed or could not be started. */
  readonly code: number | null

  constructor(message: string, code: number | null) {
    super(message)
    this.code = code
  }
}

/** Returns the error for a repository that cannot be opened. */
export function cannotOpen(path: string, reason: string, cause?: unknown): RepositoryUnavailable {
  return new RepositoryUnavailable(`the repository ${path} cannot be opened: ${reason}`, { cause })
}

/**
 * Returns the error for a repository on which the system or git failed. Any other error is returned
 * as it is: a bug does not pass for a repository that cannot be opened.
 */
export function unavailable(path: string, error: unknown): unknown {
  return isSystemError(error) || error instanceof GitFailed ? cannotOpen(path, error.message, error) : error
}

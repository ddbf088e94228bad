import { Refusal } from '../domain/refusal.ts'
import { RepositoryUnavailable } from '../git/errors.ts'

/**
 * Returns the error to send after a repository's files could not be opened, or its rows not be found.
 * If the repository was deleted after access to it was checked, it is missing, not unavailable.
 * Returns any other error unchanged.
 *
 * @param checkAccess throws the error for a missing repository
 */
export async function recheckAccess(error: unknown, checkAccess: () => Promise<unknown>): Promise<unknown> {
  if (!(error instanceof RepositoryUnavailable || error instanceof Refusal)) return error
  return checkAccess().then(
    () => error,
    (missing: unknown) => missing,
  )
}

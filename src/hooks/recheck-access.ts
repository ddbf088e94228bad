import { RepositoryUnavailable } from '../git/repository.ts'

/**
 * Returns the error to answer with after a repository's files could not be opened. The repository may have been deleted
 * after access to it was checked: then it is missing, not unavailable. Any other error is returned as it is.
 *
 * @param checkAccess throws the error for a missing repository
 */
export async function recheckAccess(error: unknown, checkAccess: () => Promise<unknown>): Promise<unknown> {
  if (!(error instanceof RepositoryUnavailable)) return error
  return checkAccess().then(
    () => error,
    (missing: unknown) => missing,
  )
}

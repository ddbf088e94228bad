import { GitFailed, RepositoryUnavailable } from '../errors.ts'
import { type OpenedRepository, openRepository, type RepositoryFiles } from '../opened-repository.ts'
import { decodeLatin1 } from '../run-git.ts'
import type { RunLimits } from './list-refs.ts'
import { readSymbolicRefs } from './symbolic-refs.ts'

/** Returns the full names of the branches and tags that an update of a ref changes. */
export type ChangedRefs = (ref: string) => string[]

const TIMEOUT = 30_000

/**
 * Returns a function that finds what an update of a ref changes. git follows symbolic refs, so this is
 * the ref at the end and all that lead to it.
 *
 * @returns takes a name decoded as Latin-1
 * @throws as `readSymbolicRefs`
 */
export async function findChangedRefs(repository: OpenedRepository, limits: RunLimits): Promise<ChangedRefs> {
  const symbolic = await readSymbolicRefs(repository, limits)
  const aliases = Map.groupBy(symbolic.keys(), (ref) => symbolic.get(ref))
  return (ref) => {
    const target = symbolic.get(ref) ?? ref
    return [target, ...(aliases.get(target) ?? [])].map(decodeLatin1)
  }
}

/** As `findChangedRefs`; of a repository that cannot be read, what the names alone tell. */
export async function guessChangedRefs(repository: RepositoryFiles): Promise<ChangedRefs> {
  try {
    return await findChangedRefs(await openRepository(repository), { timeout: TIMEOUT })
  } catch (error) {
    if (error instanceof RepositoryUnavailable || error instanceof GitFailed)
      return (ref) => [decodeLatin1(ref)]
    throw error
  }
}

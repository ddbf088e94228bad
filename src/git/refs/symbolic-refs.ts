import { GitFailed, RepositoryUnavailable } from '../errors.ts'
import { type OpenedRepository, openRepository, type RepositoryFiles } from '../opened-repository.ts'
import { decodeLatin1 } from '../run-git.ts'
import { listRefs, type RunLimits } from './list-refs.ts'
import { followSymbolic, listLoose, readTarget } from './loose-refs.ts'

/** Returns the full names of the branches and tags that an update of a ref changes. */
export type ChangedRefs = (ref: string) => string[]

/** Milliseconds. */
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

/**
 * Returns the symbolic refs below `refs`, each with the ref at the end of its chain, which need not
 * exist. Names are decoded as Latin-1.
 *
 * @throws GitFailed; the signal's reason
 */
export async function readSymbolicRefs(
  repository: OpenedRepository,
  limits: RunLimits,
): Promise<Map<string, string>> {
  const targets = new Map<string, string>()
  await listRefs(repository, ['refname', 'symref'], limits, ([ref = '', target = '']) => {
    targets.set(ref, target)
  })
  await addSymbolicFiles(repository.path, targets)
  const ends = new Map<string, string>()
  for (const [ref, target] of targets) {
    const chain = target && (await followSymbolic(ref, async (name) => targets.get(name) || undefined))
    if (chain) ends.set(ref, chain.at(-1) ?? '')
  }
  return ends
}

/**
 * Adds what git does not list: symbolic refs that lead nowhere, and of a chain more than its end. A
 * reftable has no such files.
 *
 * @param targets what git lists, with an empty target for a ref that is not symbolic
 */
export async function addSymbolicFiles(path: string, targets: Map<string, string>): Promise<void> {
  for await (const ref of listLoose(path, 'refs')) {
    if (ref === null || targets.get(ref) === '') continue
    const target = await readTarget(path, ref)
    if (target !== undefined) targets.set(ref, target)
  }
}

import { isSystemError, nullOnSystemError } from '../../util/expected-errors.ts'
import { GitFailed, RepositoryUnavailable } from '../errors.ts'
import { type OpenedRepository, openRepository, type RepositoryFiles } from '../opened-repository.ts'
import { decodeLatin1 } from '../run-git.ts'
import { listRefs, type RunLimits } from './list-refs.ts'
import { followSymbolic, hasReftable, listLoose, readLoose, readTarget } from './loose-refs.ts'

/** Returns the full names of the branches and tags that an update of a ref changes. */
export type ChangedRefs = (ref: string) => string[]

/** Milliseconds. */
const TIMEOUT = 30_000
/** Refs with files of their own. With more, git is faster. */
const MAX_LOOSE = 50

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
    if (error instanceof RepositoryUnavailable || error instanceof GitFailed || isSystemError(error))
      return (ref) => [decodeLatin1(ref)]
    throw error
  }
}

/**
 * Returns the symbolic refs below `refs`, each with the ref at the end of its chain, which need not
 * exist. Names are decoded as Latin-1. Reads git's files, since git packs no symbolic ref; git lists the
 * refs where there are many, a reftable, or what only git reads.
 *
 * @throws GitFailed, the system's error; the signal's reason
 */
export async function readSymbolicRefs(
  repository: OpenedRepository,
  limits: RunLimits,
): Promise<Map<string, string>> {
  const targets =
    (await readTargets(repository.path, limits.signal)) ?? (await listTargets(repository, limits))
  const targetOf = async (name: string) =>
    name === 'HEAD' ? readTarget(repository.path, name) : targets.get(name) || undefined
  const ends = new Map<string, string>()
  for (const [ref, target] of targets) {
    const chain = target && (await followSymbolic(ref, targetOf))
    if (chain) ends.set(ref, chain.at(-1) ?? '')
  }
  return ends
}

/** Returns the targets of symbolic refs by git's files alone; null if git should list them. */
async function readTargets(
  path: string,
  signal: AbortSignal | undefined,
): Promise<Map<string, string> | null> {
  if (await hasReftable(path)) return null
  const targets = new Map<string, string>()
  let count = 0
  for await (const ref of listLoose(path, 'refs')) {
    signal?.throwIfAborted()
    count++
    if (ref === null || count > MAX_LOOSE) return null
    const { id, target } = (await readLoose(path, ref).catch(nullOnSystemError)) ?? {}
    // For example a link to a folder of refs, which git follows.
    if (id === undefined && target === undefined) return null
    if (target !== undefined) targets.set(ref, target)
  }
  return targets
}

/** Returns the targets of symbolic refs, and empty ones of others. */
async function listTargets(repository: OpenedRepository, limits: RunLimits): Promise<Map<string, string>> {
  const targets = new Map<string, string>()
  await listRefs(repository, ['refname', 'symref'], limits, ([ref = '', target = '']) => {
    targets.set(ref, target)
  })
  await addSymbolicFiles(repository.path, targets)
  return targets
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
    // The branch that git lists says more than HEAD.
    const isListed = target === 'HEAD' && targets.has(ref)
    if (target !== undefined && !isListed) targets.set(ref, target)
  }
}

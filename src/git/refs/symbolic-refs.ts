import type { OpenedRepository } from '../opened-repository.ts'
import { listRefs, type RunLimits } from './list-refs.ts'
import { followSymbolic, listLoose, readTarget } from './loose-refs.ts'

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

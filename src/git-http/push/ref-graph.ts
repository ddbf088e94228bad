import { GitFailed } from '../../git/errors.ts'
import type { OpenedRepository } from '../../git/opened-repository.ts'
import { readGit } from '../../git/run-git.ts'

/** Milliseconds. Signals stop git earlier. */
const TIMEOUT = 24 * 60 * 60 * 1000
const NOT_AN_ANCESTOR = 1

/** Returns which ids are those of commits in the repository. */
export async function findCommits(
  repository: OpenedRepository,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<Set<string>> {
  if (ids.length === 0) return new Set()
  const format = '--batch-check=%(objecttype) %(objectname)'
  const lines = await readGit(repository, ['cat-file', format], { signal, input: ids.join('\n') })
  return new Set(lines.match(/(?<=^commit ).+$/gm))
}

/**
 * Returns whether `old` is an ancestor of `id` or the same commit.
 *
 * @throws GitFailed if one of them is not a commit
 */
export async function isAncestor(
  repository: OpenedRepository,
  old: string,
  id: string,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await readGit(repository, ['merge-base', '--is-ancestor', old, id], { timeout: TIMEOUT, signal })
    return true
  } catch (error) {
    if (error instanceof GitFailed && error.code === NOT_AN_ANCESTOR) return false
    throw error
  }
}

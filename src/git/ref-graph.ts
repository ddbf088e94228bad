import { textOf } from './config-check.ts'
import { readGit } from './run-git.ts'

const NOT_AN_ANCESTOR = 1

/**
 * Returns whether `old` is an ancestor of `id` or the same commit.
 *
 * @param gitDir the git directory that git is run on: see `gitDirOf`
 * @param signal stops git
 * @throws git's error, for example if one of them is not a commit
 */
export async function isAncestor(
  gitDir: string,
  old: string,
  id: string,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await readGit(gitDir, ['merge-base', '--is-ancestor', old, id], signal)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === NOT_AN_ANCESTOR) return false
    throw error
  }
}

/**
 * Returns the refs that point to another ref, with the last ref that each of them leads to. Names are decoded as Latin-1,
 * because they may not be UTF-8.
 *
 * @param gitDir the git directory that git is run on: see `gitDirOf`
 * @param signal stops git
 * @throws git's error
 */
export async function readSymbolicRefs(gitDir: string, signal: AbortSignal): Promise<Map<string, string>> {
  const format = '--format=%(if)%(symref)%(then)%(refname) %(symref)%(end)'
  const output = await readGit(gitDir, ['for-each-ref', format], signal)
  const lines = output.split('\n').filter((line) => line !== '')
  return new Map(
    lines.map((line) => {
      const [ref = '', target = ''] = line.split(' ')
      return [ref, target]
    }),
  )
}

/**
 * Returns the object ids of refs by name, without those that do not exist.
 *
 * @param gitDir the git directory that git is run on: see `gitDirOf`
 * @param names full names in UTF-8, at most a few dozen
 * @throws git's error
 */
export async function readRefIds(gitDir: string, names: readonly string[]): Promise<Map<string, string>> {
  const wanted = new Set(names.filter((name) => name.startsWith('refs/')))
  if (wanted.size === 0) return new Map()
  const args = ['for-each-ref', '--format=%(objectname) %(refname)', '--', ...wanted]
  const refs = textOf(await readGit(gitDir, args))
    .split('\n')
    .map((line) => [line.slice(line.indexOf(' ') + 1), line.split(' ', 1)[0] ?? ''] as const)
  // A name is also a pattern of the refs in a folder of that name.
  return new Map(refs.filter(([name]) => wanted.has(name)))
}

import { join, relative } from 'node:path'
import { decodeLatin1, GitFailed, readGit } from '../../git/run-git.ts'
import { walk } from '../../util/walk.ts'

/** Milliseconds. git waits for the answer, under a shorter limit of its own. */
const TIMEOUT = 24 * 60 * 60 * 1000
const NOT_AN_ANCESTOR = 1

/**
 * Returns whether `old` is an ancestor of `id` or the same commit.
 *
 * @param path absolute path of the git directory
 * @param signal stops git
 * @throws GitFailed, for example if one of them is not a commit
 */
export async function isAncestor(
  path: string,
  old: string,
  id: string,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await readGit(path, ['merge-base', '--is-ancestor', old, id], { timeout: TIMEOUT, signal })
    return true
  } catch (error) {
    if (error instanceof GitFailed && error.code === NOT_AN_ANCESTOR) return false
    throw error
  }
}

/**
 * Returns the refs that point to another ref, with the last ref that each of them leads to, which need not exist. Names are
 * decoded as Latin-1, because they may not be UTF-8.
 *
 * @param path absolute path of the git directory
 * @param signal stops git
 * @throws GitFailed; the system's error
 */
export async function readSymbolicRefs(path: string, signal: AbortSignal): Promise<Map<string, string>> {
  const output = await readGit(path, ['for-each-ref', '--format=%(refname) %(symref)'], {
    timeout: TIMEOUT,
    signal,
  })
  const lines = output.split('\n').filter((line) => line !== '')
  const refs = new Map(
    lines.map((line) => {
      const [ref = '', target = ''] = line.split(' ')
      return [ref, target]
    }),
  )
  const symbolic = new Map([...refs].filter(([, target]) => target !== ''))
  for await (const ref of filesOfRefs(path)) {
    // git lists no ref whose target does not exist. A push to either of them creates both.
    if (refs.has(ref)) continue
    const target = await targetOf(path, ref, signal)
    if (target !== null) symbolic.set(ref, target)
  }
  return symbolic
}

/** Yields the names of the files below `refs`. A reftable has none that name refs. */
async function* filesOfRefs(path: string): AsyncGenerator<string> {
  for await (const { path: file, isFolder } of walk(join(path, 'refs')))
    if (!isFolder && !file.endsWith('.lock')) yield Buffer.from(relative(path, file)).toString('latin1')
}

/** Returns the ref that a symbolic ref leads to; null if it is none, or not a ref at all. */
async function targetOf(path: string, ref: string, signal: AbortSignal): Promise<string | null> {
  const name = Buffer.from(ref, 'latin1').toString()
  try {
    return (await readGit(path, ['symbolic-ref', '--quiet', name], { timeout: TIMEOUT, signal })).trim()
  } catch (error) {
    if (error instanceof GitFailed && error.code !== null) return null
    throw error
  }
}

/**
 * Returns the object ids of refs by name, without those that do not exist.
 *
 * @param path absolute path of the git directory
 * @param names full names in UTF-8, at most a few dozen
 * @throws GitFailed
 */
export async function readRefIds(path: string, names: readonly string[]): Promise<Map<string, string>> {
  const wanted = new Set(names.filter((name) => name.startsWith('refs/')))
  if (wanted.size === 0) return new Map()
  const args = ['for-each-ref', '--format=%(objectname) %(refname)', '--', ...wanted]
  const refs = decodeLatin1(await readGit(path, args))
    .split('\n')
    .map((line) => [line.slice(line.indexOf(' ') + 1), line.split(' ', 1)[0] ?? ''] as const)
  // A name is also a pattern of the refs in a folder of that name.
  return new Map(refs.filter(([name]) => wanted.has(name)))
}

import { join, relative } from 'node:path'
import { walk } from '../util/walk.ts'
import { decodeLatin1, GitFailed, readGit } from './run-git.ts'

/** Milliseconds. git waits for the answer, under a shorter limit of its own. */
const TIMEOUT = 24 * 60 * 60 * 1000
const NOT_AN_ANCESTOR = 1

/**
 * Returns whether `old` is an ancestor of `id` or the same commit.
 *
 * @param gitDir the git directory that git is run on: see `gitDirOf`
 * @param signal stops git
 * @throws GitFailed, for example if one of them is not a commit
 */
export async function isAncestor(
  gitDir: string,
  old: string,
  id: string,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await readGit(gitDir, ['merge-base', '--is-ancestor', old, id], { timeout: TIMEOUT, signal })
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
 * @param gitDir the git directory that git is run on: see `gitDirOf`
 * @param signal stops git
 * @throws GitFailed; the system's error
 */
export async function readSymbolicRefs(gitDir: string, signal: AbortSignal): Promise<Map<string, string>> {
  const output = await readGit(gitDir, ['for-each-ref', '--format=%(refname) %(symref)'], {
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
  for await (const ref of filesOfRefs(gitDir)) {
    // git lists no ref whose target does not exist. A push to either of them creates both.
    if (refs.has(ref)) continue
    const target = await targetOf(gitDir, ref, signal)
    if (target !== null) symbolic.set(ref, target)
  }
  return symbolic
}

/** Yields the names of the files below `refs`. A reftable has none that name refs. */
async function* filesOfRefs(gitDir: string): AsyncGenerator<string> {
  for await (const { path, isFolder } of walk(join(gitDir, 'refs')))
    if (!isFolder && !path.endsWith('.lock')) yield Buffer.from(relative(gitDir, path)).toString('latin1')
}

/** Returns the ref that a symbolic ref leads to; null if it is none, or not a ref at all. */
async function targetOf(gitDir: string, ref: string, signal: AbortSignal): Promise<string | null> {
  const name = Buffer.from(ref, 'latin1').toString()
  try {
    return (await readGit(gitDir, ['symbolic-ref', '--quiet', name], { timeout: TIMEOUT, signal })).trim()
  } catch (error) {
    if (error instanceof GitFailed && error.code !== null) return null
    throw error
  }
}

/**
 * Returns the object ids of refs by name, without those that do not exist.
 *
 * @param gitDir the git directory that git is run on: see `gitDirOf`
 * @param names full names in UTF-8, at most a few dozen
 * @throws GitFailed
 */
export async function readRefIds(gitDir: string, names: readonly string[]): Promise<Map<string, string>> {
  const wanted = new Set(names.filter((name) => name.startsWith('refs/')))
  if (wanted.size === 0) return new Map()
  const args = ['for-each-ref', '--format=%(objectname) %(refname)', '--', ...wanted]
  const refs = decodeLatin1(await readGit(gitDir, args))
    .split('\n')
    .map((line) => [line.slice(line.indexOf(' ') + 1), line.split(' ', 1)[0] ?? ''] as const)
  // A name is also a pattern of the refs in a folder of that name.
  return new Map(refs.filter(([name]) => wanted.has(name)))
}

import { join, relative } from 'node:path'
import { GitFailed, readGit, runGit } from '../../git/run-git.ts'
import { walk } from '../../util/walk.ts'

/** Milliseconds. git waits for the answer, under a shorter limit of its own. */
const TIMEOUT = 24 * 60 * 60 * 1000
const NOT_AN_ANCESTOR = 1
/** Maximum number of refs that git is asked for by name. */
const MAX_PATTERNS = 100

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

/** Object ids by the names of refs, decoded as Latin-1. */
export type RefIds = ReadonlyMap<string, string>

/**
 * Returns the object ids of refs by name, without those that do not exist. Names are decoded as Latin-1.
 *
 * @param path absolute path of the git directory
 * @param signal stops git
 * @throws GitFailed, GitTimeout
 */
export async function readRefIds(
  path: string,
  refs: readonly { ref: string }[],
  signal?: AbortSignal,
): Promise<RefIds> {
  const names = new Set(refs.map(({ ref }) => ref))
  const ids = new Map<string, string>()
  let rest = ''
  const output = {
    isFull: false,
    push(chunk: Buffer) {
      const lines = (rest + chunk.toString('latin1')).split('\n')
      rest = lines.pop() ?? ''
      for (const line of lines) {
        const [id = '', ref = ''] = line.split(' ')
        if (names.has(ref)) ids.set(ref, id)
      }
    },
  }
  const args = ['for-each-ref', '--format=%(objectname) %(refname)', '--', ...patternsFor(names)]
  const failure = await runGit(path, args, output, TIMEOUT, signal)
  if (failure) throw failure
  return ids
}

/** Returns patterns that match the refs; none, which match all, if there are too many or git cannot be asked for one. */
function patternsFor(names: ReadonlySet<string>): string[] {
  const patterns = [...names].map((name) => Buffer.from(name, 'latin1').toString())
  const isTooLong = patterns.length > MAX_PATTERNS || patterns.join().length > MAX_PATTERNS * 1000
  return isTooLong || patterns.some((name) => !/^refs\//.test(name) || name.includes('\ufffd'))
    ? []
    : patterns
}

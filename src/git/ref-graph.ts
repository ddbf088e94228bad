import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { gitEnvironment } from './environment.ts'

const run = promisify(execFile)
const MAX_OUTPUT = 16 * 1024 * 1024
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
    await runGit(gitDir, ['merge-base', '--is-ancestor', old, id], signal)
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
  const output = await runGit(gitDir, ['for-each-ref', format], signal)
  const lines = output.split('\n').filter((line) => line !== '')
  return new Map(
    lines.map((line) => {
      const [ref = '', target = ''] = line.split(' ')
      return [ref, target]
    }),
  )
}

async function runGit(gitDir: string, args: readonly string[], signal: AbortSignal): Promise<string> {
  const { stdout } = await run('git', [`--git-dir=${gitDir}`, ...args], {
    cwd: '/',
    env: gitEnvironment(gitDir),
    encoding: 'latin1',
    maxBuffer: MAX_OUTPUT,
    signal,
    killSignal: 'SIGKILL',
  })
  return stdout
}

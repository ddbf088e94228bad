import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { gitEnvironment } from './environment.ts'

const run = promisify(execFile)
/** Milliseconds until git is stopped. */
const TIMEOUT = 10_000

/**
 * Returns the object ids of refs by name, without those that do not exist.
 *
 * @param gitDir as returned by `gitDirOf`
 * @param names full names, at most a few dozen
 */
export async function readRefIds(gitDir: string, names: readonly string[]): Promise<Map<string, string>> {
  const wanted = names.filter((name) => name.startsWith('refs/'))
  if (wanted.length === 0) return new Map()
  const args = [`--git-dir=${gitDir}`, 'for-each-ref', '--format=%(objectname) %(refname)', '--', ...wanted]
  const { stdout } = await run('git', args, { cwd: '/', env: gitEnvironment(gitDir), timeout: TIMEOUT })
  const refs = stdout
    .split('\n')
    .map((line) => [line.slice(line.indexOf(' ') + 1), line.split(' ', 1)[0]] as const)
  return new Map(refs.flatMap(([name, id]) => (id && wanted.includes(name) ? [[name, id] as const] : [])))
}

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { ExpectedError } from '../util/expected-errors.ts'
import { gitEnvironment } from './environment.ts'
import { RepositoryUnavailable } from './errors.ts'

const TIMEOUT = 5_000
/**
 * The first version with `core.fsync`; an older one does not sync the objects and refs of small
 * pushes.
 */
export const OLDEST_GIT = { major: 2, minor: 36 }

/** git is too old to sync to disk what it acknowledges. */
export class GitTooOld extends ExpectedError {}

/** Checks git. @throws RepositoryUnavailable if it is missing or does not answer; GitTooOld */
export async function checkGit(): Promise<void> {
  const options = { env: gitEnvironment(), timeout: TIMEOUT, killSignal: 'SIGKILL' } as const
  const { stdout } = await promisify(execFile)('git', ['version'], options).catch((cause: unknown) => {
    throw new RepositoryUnavailable('git cannot be run', { cause })
  })
  const [, version, major, minor] = /^git version ((\d+)\.(\d+)\S*)/.exec(stdout) ?? []
  const isOld =
    Number(major) < OLDEST_GIT.major ||
    (Number(major) === OLDEST_GIT.major && Number(minor) < OLDEST_GIT.minor)
  if (!isOld) return
  throw new GitTooOld(
    `git ${version} is too old: it cannot sync pushed data to disk. ` +
      `Install git ${OLDEST_GIT.major}.${OLDEST_GIT.minor} or later.`,
  )
}

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { gitEnvironment } from './environment.ts'
import { RepositoryUnavailable } from './repository.ts'

const run = promisify(execFile)
const TIMEOUT = 5_000
/** The first version with `core.fsync`; an older one does not sync the objects and refs of small pushes. */
const OLDEST = { major: 2, minor: 36 }

/** git can be run, but what it acknowledges may be lost in a power cut. */
export class GitTooOld extends RepositoryUnavailable {}

/**
 * Makes sure that git can be run and that it is not too old.
 *
 * @throws RepositoryUnavailable when it is not there or does not answer; GitTooOld
 */
export async function checkGit(): Promise<void> {
  const { stdout } = await run('git', ['--version'], {
    cwd: '/',
    env: gitEnvironment('/'),
    timeout: TIMEOUT,
  }).catch((error) => {
    throw new RepositoryUnavailable('git cannot be run', { cause: error })
  })
  const [, version, major, minor] = /^git version ((\d+)\.(\d+)\S*)/.exec(stdout) ?? []
  const isOld =
    Number(major) < OLDEST.major || (Number(major) === OLDEST.major && Number(minor) < OLDEST.minor)
  if (!isOld) return
  throw new GitTooOld(
    `git ${version} is too old: it cannot sync to disk what a push writes. ` +
      `Install git ${OLDEST.major}.${OLDEST.minor} or later.`,
  )
}

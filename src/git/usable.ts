import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { gitEnvironment } from './environment.ts'
import { RepositoryUnavailable } from './repository.ts'

const run = promisify(execFile)
const TIMEOUT = 5_000

/** Makes sure that git can be run. @throws RepositoryUnavailable when it is not there or does not answer */
export async function checkGit(): Promise<void> {
  try {
    await run('git', ['--version'], { cwd: '/', env: gitEnvironment('/'), timeout: TIMEOUT })
  } catch (error) {
    throw new RepositoryUnavailable('git cannot be run', { cause: error })
  }
}

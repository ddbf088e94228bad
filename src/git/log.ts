import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { limitConcurrency } from '../util/limit-concurrency.ts'
import { checkConfig, type RepositoryFolder } from './config-check.ts'
import { gitEnvironment } from './environment.ts'
import { RepositoryUnavailable } from './repository.ts'

const run = promisify(execFile)

/** A commit as pages show it. */
export interface Commit {
  sha: string
  author: string
  /** When it was written, ISO 8601 in UTC; null where the commit tells no date that there is. */
  date: string | null
  subject: string
}

const FORMAT = ['%H', '%an', '%aI', '%s'].join('%x00')
const TIMEOUT = 10_000
/** Anybody may look at a public repository as often as they like. */
const inTurn = limitConcurrency(8)

/**
 * The newest commits of the branch that HEAD names; none where nothing has been pushed to it yet.
 *
 * @throws RepositoryUnavailable when the repository's files cannot be opened or its configuration is refused
 */
export async function recentCommits(repository: RepositoryFolder, count: number): Promise<Commit[]> {
  await checkConfig(repository)
  const { path } = repository
  const options = { env: gitEnvironment(path), timeout: TIMEOUT, maxBuffer: 16 * 1024 * 1024 }
  const form = ['-z', '--no-show-signature', `--max-count=${count}`, `--format=${FORMAT}`]
  try {
    const { stdout } = await inTurn(() =>
      run('git', ['--git-dir', path, 'log', ...form, 'HEAD', '--'], options),
    )
    return parse(stdout)
  } catch (error) {
    if (/unknown revision|bad revision 'HEAD'|does not have any commits/.test(String(error))) return []
    throw new RepositoryUnavailable('git could not list commits', { cause: error })
  }
}

/** Fields and records alike end with NUL, which no field can hold. */
function parse(output: string): Commit[] {
  const fields = output.split('\0')
  const commits: Commit[] = []
  for (let index = 0; index + 3 < fields.length; index += 4) {
    const [sha = '', author = '', date = '', subject = ''] = fields.slice(index, index + 4)
    commits.push({ sha, author, date: readDate(date), subject })
  }
  return commits
}

function readDate(text: string): string | null {
  const moment = Date.parse(text)
  return Number.isNaN(moment) ? null : new Date(moment).toISOString()
}

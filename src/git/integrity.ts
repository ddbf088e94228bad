import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { emptyWhenMissing } from '../util/expected-errors.ts'
import { shellQuote } from '../util/shell-quote.ts'
import { GitFailed, GitTimeout, RepositoryUnavailable } from './errors.ts'
import { statIfExists } from './file-state.ts'
import type { OpenedRepository } from './opened-repository.ts'
import { readGit, runGit } from './run-git.ts'

/** Milliseconds in which git adds the index to a pack that it has put in place. */
const INDEX_DELAY = 60_000
/** Milliseconds. git checks a million refs in half a second. */
const REFS_TIMEOUT = 5_000
/** Milliseconds in which git reads all of a repository. */
const WALK_TIMEOUT = 12 * 3_600_000
const [MAX_FINDINGS, MAX_OUTPUT] = [20, 16_384]
/** What `git fsck` prints besides damage; `checkComplete` finds nulls that are no dangling HEAD. */
const HARMLESS = /^$|^ |^notice: |^warning|^broken link |^it ended with \d+$|: invalid sha1 pointer 0+$/

/**
 * Makes sure that what git does not find was not lost: every pack has its index, without which git
 * ignores it, and every ref leads to an object. Does not check what that object refers to.
 *
 * @returns whether that holds until packs change: no index is still to come
 * @throws RepositoryUnavailable
 */
export async function checkComplete(repository: OpenedRepository): Promise<boolean> {
  const { path } = repository
  const folder = join(path, 'objects', 'pack')
  const names = new Set(await readdir(folder).catch(emptyWhenMissing))
  const lacksIndex = (name: string) => name.endsWith('.pack') && !names.has(name.replace(/pack$/, 'idx'))
  const incomplete = [...names].filter(lacksIndex).map((name) => join(folder, name))
  const problems: string[] = []
  for (const pack of incomplete) {
    const stats = await statIfExists(pack)
    if (stats && stats.ctimeMs < Date.now() - INDEX_DELAY)
      problems.push(`${pack} has no index. Create it with: git index-pack ${shellQuote(pack)}`)
  }
  if (problems.length > 0) throw damagedRepository(path, problems.slice(0, MAX_FINDINGS).join('; '))

  try {
    await readGit(repository, ['show-ref', '--quiet', '--head'], { timeout: REFS_TIMEOUT })
  } catch (error) {
    // A timeout proves nothing. git exits with 1 if there are no refs.
    if (error instanceof GitFailed && error.code !== 1) throw damagedRepository(path, error.message, error)
    if (!(error instanceof GitFailed || error instanceof GitTimeout)) throw error
  }

  return incomplete.length === 0
}

/**
 * Walks from all refs through all commits and trees of a repository for which `checkComplete` has
 * succeeded. Returns a line for each of the first 20 objects that are missing or cannot be read.
 *
 * @param full whether to read every object, which finds changed bytes
 */
export async function findDamage(repository: OpenedRepository, full: boolean): Promise<string[]> {
  let output = ''
  const push = (chunk: Buffer) => {
    if (output.length < MAX_OUTPUT) output += chunk
  }
  const args = ['--no-dangling', '--no-reflogs', '--no-progress', ...(full ? [] : ['--connectivity-only'])]
  const failure = await runGit(repository, ['fsck', ...args], { push }, WALK_TIMEOUT)
  const lines = `${output}${failure?.message ?? ''}`.split('\n').filter((line) => !HARMLESS.test(line))
  return lines.slice(0, MAX_FINDINGS).map((line) => line.replace(/^(?:error|fatal): /, ''))
}

function damagedRepository(path: string, text: string, cause?: GitFailed): RepositoryUnavailable {
  const reason = text.replace(/^fatal: git show-ref: /, '')
  return new RepositoryUnavailable(`the repository ${path} is damaged: ${reason}`, { cause })
}

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
const [MAX_FINDINGS, MAX_LINE] = [20, 1_000]
/**
 * What `git fsck` prints besides damage: `checkComplete` finds nulls that are no dangling HEAD, and an
 * object with a named flaw (git-fsck(1)) is what somebody has stored.
 */
const HARMLESS =
  /^$|^ |^notice: |^warning|^broken link |^error in \w+ [0-9a-f]+: \w+: |: invalid sha1 pointer 0+$/

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
  const [output, errors] = [collectFindings(), collectFindings()]
  const args = ['--no-dangling', '--no-reflogs', '--no-progress', ...(full ? [] : ['--connectivity-only'])]
  const receive = { push: output.push, pushError: errors.push }
  const failure = await runGit(repository, ['fsck', ...args], receive, WALK_TIMEOUT)
  for (const { push } of [output, errors]) push('\n')
  const findings = [...output.findings, ...(failure ? errors.findings : [])]
  if (failure?.code === null) findings.unshift('git fsck was killed before it had read everything')
  return findings.slice(0, MAX_FINDINGS)
}

/** Finds the first lines about damage in text that arrives in pieces and ends with a line break. */
function collectFindings() {
  const findings: string[] = []
  let rest = ''
  return {
    findings,
    push(piece: Buffer | string) {
      const lines = `${rest}${piece}`.split('\n')
      rest = (lines.pop() ?? '').slice(0, MAX_LINE)
      const found = lines.filter((line) => !HARMLESS.test(line))
      for (const line of found.slice(0, MAX_FINDINGS - findings.length))
        findings.push(line.slice(0, MAX_LINE).replace(/^(?:error|fatal): /, ''))
    },
  }
}

function damagedRepository(path: string, text: string, cause?: GitFailed): RepositoryUnavailable {
  const reason = text.replace(/^fatal: git show-ref: /, '')
  return new RepositoryUnavailable(`the repository ${path} is damaged: ${reason}`, { cause })
}

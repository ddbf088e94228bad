import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { emptyWhenMissing } from '../util/missing.ts'
import { shellQuote } from '../util/shell-quote.ts'
import { RepositoryUnavailable } from './repository-health.ts'
import { GitFailed, GitTimeout, readGit, runGit } from './run-git.ts'

/** Milliseconds in which git adds the index to a pack that it has put in place. */
const INDEX_DELAY = 60_000
/** Milliseconds between two looks at an older pack: git may be removing it, index first. */
const SECOND_LOOK = 500
/** Milliseconds. git checks a million refs in half a second. */
const REFS_TIMEOUT = 5_000
/** Milliseconds in which git reads the commits and trees of a repository, or all of it. */
const [WALK_TIMEOUT, FULL_TIMEOUT] = [3_600_000, 24 * 3_600_000]
const MAX_FINDINGS = 20
/**
 * Lines of `git fsck` that report no damage: symbolic refs to branches without commits (`checkComplete` finds other refs without
 * an id), objects of a form that git no longer creates, and what refers to an object whose line is `missing …`.
 */
const HARMLESS = /^(?:$| |notice: |warning|error in |broken link |error: \S+: invalid sha1 pointer 0+$)/

/**
 * Makes sure that what git does not find in a repository was not lost: no pack lacks its index, without which git ignores the
 * pack, and each ref leads to an object. Does not check what that object refers to.
 *
 * @param path absolute path of the git directory
 * @returns whether this holds until the folder of packs changes; false if the index of a new pack is still to come
 * @throws RepositoryUnavailable that says what is damaged
 */
export async function checkComplete(path: string): Promise<boolean> {
  const packs = await packsWithoutIndex(path)
  const old = await Promise.all(packs.map(isOld))
  if (old.includes(true)) {
    await setTimeout(SECOND_LOOK)
    const left = await packsWithoutIndex(path)
    const lost = packs.find((file, index) => old[index] && left.includes(file))
    if (lost) throw damaged(path, `${lost} has no index. Create it with: git index-pack ${shellQuote(lost)}`)
  }
  try {
    await readGit(path, ['show-ref', '--quiet', '--head'], { timeout: REFS_TIMEOUT })
  } catch (error) {
    const areNone = error instanceof GitFailed && error.code === 1
    if (!areNone && !(error instanceof GitTimeout)) throw damaged(path, error)
  }
  return packs.length === 0
}

/**
 * Walks from all refs through all commits and trees, and makes sure that each object that they name exists.
 *
 * @param path absolute path of the git directory, for which `checkComplete` has succeeded
 * @param full whether to read every object, which finds changed bytes
 * @returns a line for each object that is missing or cannot be read, for the first 20 of them
 * @throws GitTimeout
 */
export async function findDamage(path: string, full: boolean): Promise<string[]> {
  const found: string[] = []
  let [lines, more] = [0, 0]
  const take = (line: string) => {
    lines++
    if (HARMLESS.test(line)) return
    if (found.length < MAX_FINDINGS) found.push(line.replace(/^(?:error|fatal): /, ''))
    else more++
  }
  const [stdout, stderr] = [lineReader(take), lineReader(take)]
  const output = { push: (chunk: Buffer) => stdout(chunk.toString()), pushError: stderr, isFull: false }
  const args = ['fsck', '--no-dangling', '--no-reflogs', '--no-progress']
  if (!full) args.push('--connectivity-only')
  const failure = await runGit(path, args, output, full ? FULL_TIMEOUT : WALK_TIMEOUT)
  if (more > 0) found.push(`${more.toLocaleString('en')} more problems`)
  const isHarmless = failure === undefined || (failure.code !== null && lines > 0)
  return isHarmless || found.length > 0 ? found : [failure.message]
}

/** Returns a function that receives text and passes on its lines. */
function lineReader(take: (line: string) => void): (text: string) => void {
  let rest = ''
  return (text) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) take(line)
  }
}

async function packsWithoutIndex(path: string): Promise<string[]> {
  const folder = join(path, 'objects', 'pack')
  const names = new Set(await readdir(folder).catch(emptyWhenMissing))
  const isIncomplete = (name: string) =>
    /^pack-[0-9a-f]+\.pack$/.test(name) && !names.has(name.replace(/pack$/, 'idx'))
  return [...names].filter(isIncomplete).map((name) => join(folder, name))
}

async function isOld(file: string): Promise<boolean> {
  const { ctimeMs } = await stat(file).catch(() => ({ ctimeMs: Number.POSITIVE_INFINITY }))
  return ctimeMs < Date.now() - INDEX_DELAY
}

function damaged(path: string, cause: unknown): RepositoryUnavailable {
  const reason = cause instanceof Error ? cause.message.replace(/^fatal: git show-ref: /, '') : cause
  return new RepositoryUnavailable(`the repository ${path} is damaged: ${reason}`, { cause })
}

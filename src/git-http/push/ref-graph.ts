import { isFullId, NO_OBJECT } from '../../domain/commit-id.ts'
import type { RefUpdate } from '../../domain/ref-updates.ts'
import { GitFailed } from '../../git/errors.ts'
import type { OpenedRepository } from '../../git/opened-repository.ts'
import { readGit } from '../../git/run-git.ts'

/**
 * How the tip of a branch moves: to a commit without a former tip; to a descendant of it; to another
 * commit; from or to what is no commit here.
 */
export type Move = 'created' | 'forward' | 'forced' | 'not from a commit' | 'not to a commit'

/** Milliseconds. Signals stop git earlier. */
const TIMEOUT = 24 * 60 * 60 * 1000
/** Updates that one process compares: its arguments take less than 200 KB. */
const AT_ONCE = 500

/**
 * Compares the tips of updates that do not delete. One process compares hundreds of them; two more
 * are needed only where a tip is no commit.
 *
 * @throws GitFailed; the signal's reason
 */
export async function compareTips(
  repository: OpenedRepository,
  updates: readonly RefUpdate[],
  signal: AbortSignal,
): Promise<Map<RefUpdate, Move>> {
  const moves = new Map<RefUpdate, Move>()
  for (let start = 0; start < updates.length; start += AT_ONCE) {
    const some = updates.slice(start, start + AT_ONCE)
    for (const [update, move] of await compareSome(repository, some, signal)) moves.set(update, move)
  }
  return moves
}

async function compareSome(
  repository: OpenedRepository,
  updates: readonly RefUpdate[],
  signal: AbortSignal,
): Promise<Map<RefUpdate, Move>> {
  try {
    return await compareCommits(repository, updates, signal)
  } catch (error) {
    // git stops at the first id that is no commit.
    if (!(error instanceof GitFailed)) throw error
  }
  const ids = updates.flatMap((update) => [update.old, update.new])
  const commits = await findCommits(repository, ids, signal)
  const moves = new Map<RefUpdate, Move>()
  for (const update of updates) {
    if (!commits.has(update.new)) moves.set(update, 'not to a commit')
    else if (!NO_OBJECT.test(update.old) && !commits.has(update.old)) moves.set(update, 'not from a commit')
  }
  const others = updates.filter((update) => !moves.has(update))
  return new Map([...moves, ...(await compareCommits(repository, others, signal))])
}

/**
 * Asks git for the commit of each id, which differs for a tag, and for the best common ancestors of
 * each two tips (gitrevisions(7), `A...B`): the old tip itself if the new one is its descendant.
 *
 * @throws GitFailed if an id is neither that of a commit nor of a tag of one
 */
async function compareCommits(
  repository: OpenedRepository,
  updates: readonly RefUpdate[],
  signal: AbortSignal,
): Promise<Map<RefUpdate, Move>> {
  if (updates.length === 0) return new Map()
  const args = updates.flatMap(({ old, new: tip }) =>
    NO_OBJECT.test(old) ? [`${tip}^{commit}`] : [`${tip}^{commit}`, `${old}^{commit}`, `${old}...${tip}`],
  )
  const output = await readGit(repository, ['rev-parse', ...args], { timeout: TIMEOUT, signal })
  const lines = output.split('\n').values()
  const next = () => lines.next().value ?? ''

  let line = next()
  const take = () => {
    const taken = line
    line = next()
    return taken
  }
  const moves = new Map<RefUpdate, Move>()
  for (const update of updates) {
    const isCommit = take() === update.new
    let move: Move = 'created'
    if (!NO_OBJECT.test(update.old)) {
      const isFromCommit = take() === update.old
      // The two tips, then the ancestors.
      take()
      take()
      const ancestors: string[] = []
      while (line.startsWith('^')) ancestors.push(take())
      move = isFromCommit
        ? ancestors.includes(`^${update.old}`)
          ? 'forward'
          : 'forced'
        : 'not from a commit'
    }
    moves.set(update, isCommit ? move : 'not to a commit')
  }
  return moves
}

/** Returns which ids are those of commits in the repository. */
async function findCommits(
  repository: OpenedRepository,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<Set<string>> {
  const format = '--batch-check=%(objecttype) %(objectname)'
  const lines = await readGit(repository, ['cat-file', format], { signal, input: ids.join('\n') })
  return new Set(lines.match(/(?<=^commit ).+$/gm))
}

/**
 * Returns the commits to which ids lead, through any number of annotated tags; without those that
 * lead to none.
 */
export async function peelToCommits(
  repository: OpenedRepository,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<Map<string, string>> {
  const commits = new Map<string, string>()
  if (ids.length === 0) return commits
  const input = ids.map((id) => `${id}^{commit}\n`).join('')
  const args = ['cat-file', '--batch-check=%(objectname)']
  const lines = (await readGit(repository, args, { timeout: TIMEOUT, signal, input })).split('\n')
  for (const [index, id] of ids.entries()) {
    const line = lines[index] ?? ''
    if (isFullId(line)) commits.set(id, line)
  }
  return commits
}

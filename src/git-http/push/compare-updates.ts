import { isFullId, NO_OBJECT } from '../../domain/commit-id.ts'
import type { RefRefusal, RefUpdate } from '../../domain/ref-updates.ts'
import { GitFailed } from '../../git/errors.ts'
import type { OpenedRepository } from '../../git/opened-repository.ts'
import { readGit } from '../../git/run-git.ts'
import { chunksOf } from '../../util/lists.ts'

/** A branch or tag that an update changes. */
export interface ChangedRef {
  update: RefUpdate
  isTag: boolean
}

/** What the objects say about an update. */
interface Comparison {
  /** Why it is refused whatever has been reported; null: it depends on the reports. */
  refusal: RefRefusal | null
  /** The commit whose reports count. */
  sha: string
}

/** What has been compared: updates of branches, and of tags. One that changes both is in both. */
export interface Comparisons {
  branches: Map<RefUpdate, Comparison>
  tags: Map<RefUpdate, Comparison>
}

/**
 * How the tip of a branch moves: to a commit without a former tip; to a descendant of it; to another
 * commit; from or to what is no commit here.
 */
type Move = 'created' | 'forward' | 'forced' | 'not from a commit' | 'not to a commit'

/** Milliseconds. Signals stop git earlier. */
const TIMEOUT = 24 * 60 * 60 * 1000
/** Updates that one process compares: its arguments take less than 200 KB. */
const AT_ONCE = 500

const BRANCH_DELETED: RefRefusal = {
  reason: 'a branch with required checks cannot be deleted',
  kind: 'branch deleted',
}
const TAG_DELETED: RefRefusal = {
  reason: 'a tag with required checks cannot be deleted',
  kind: 'tag deleted',
}
const TAG_MOVED: RefRefusal = { reason: 'a tag with required checks cannot be moved', kind: 'tag moved' }
const TAG_OF_NO_COMMIT: RefRefusal = {
  reason: 'a tag with required checks must name a commit',
  kind: 'tag of no commit',
}
/** Why a move of a branch is refused whatever has been reported. */
const MOVES: Record<Move, RefRefusal | null> = {
  created: null,
  forward: null,
  forced: {
    reason: 'a branch with required checks cannot be pushed to by force',
    kind: 'branch forced',
  },
  'not from a commit': { reason: 'the branch has changed; fetch and push again', kind: 'changed' },
  'not to a commit': { reason: 'not a commit', kind: 'not a commit' },
}

/**
 * Compares updates with the tips of branches, and with the rules for tags: a branch moves only forward
 * and is not deleted, a tag is created for a commit and neither moved nor deleted.
 *
 * @param known what has been compared already, which is not compared again. The rest is added
 * @returns the changes in their order, each with its comparison
 * @throws GitFailed; the signal's reason
 */
export async function compareUpdates<Change extends ChangedRef>(
  repository: OpenedRepository,
  changes: readonly Change[],
  { branches, tags }: Comparisons,
  signal: AbortSignal,
): Promise<(Change & Comparison)[]> {
  const newBranches = new Set<RefUpdate>()
  const newTags = new Set<RefUpdate>()
  for (const { update, isTag } of changes)
    if (isTag && !tags.has(update)) newTags.add(update)
    else if (!isTag && !branches.has(update)) newBranches.add(update)
  await compareBranches(repository, newBranches, branches, signal)
  await compareTags(repository, newTags, tags, signal)
  return changes.map((change) => {
    const comparison = (change.isTag ? tags : branches).get(change.update)
    if (!comparison) throw new Error(`${change.update.ref} was not compared`)
    return { ...change, ...comparison }
  })
}

/** Compares branches with their tips. */
async function compareBranches(
  repository: OpenedRepository,
  updates: Iterable<RefUpdate>,
  branches: Comparisons['branches'],
  signal: AbortSignal,
): Promise<void> {
  const moved: RefUpdate[] = []
  for (const update of updates)
    if (NO_OBJECT.test(update.new)) branches.set(update, { refusal: BRANCH_DELETED, sha: update.new })
    else moved.push(update)
  for (const some of chunksOf(moved, AT_ONCE))
    for (const [update, move] of await compareTips(repository, some, signal))
      branches.set(update, { refusal: MOVES[move], sha: update.new })
}

/** Compares tags with the rules for them, all in one process. */
async function compareTags(
  repository: OpenedRepository,
  updates: Iterable<RefUpdate>,
  tags: Comparisons['tags'],
  signal: AbortSignal,
): Promise<void> {
  const created: RefUpdate[] = []
  for (const update of updates)
    if (NO_OBJECT.test(update.new)) tags.set(update, { refusal: TAG_DELETED, sha: update.new })
    else if (!NO_OBJECT.test(update.old)) tags.set(update, { refusal: TAG_MOVED, sha: update.new })
    else created.push(update)
  if (created.length === 0) return
  const commits = await peelToCommits(repository, new Set(created.map((update) => update.new)), signal)
  for (const update of created) {
    const commit = commits.get(update.new)
    const refusal = commit === undefined ? TAG_OF_NO_COMMIT : null
    tags.set(update, { refusal, sha: commit ?? update.new })
  }
}

/**
 * Compares the tips of up to `AT_ONCE` updates that do not delete, in one process; two more are needed
 * only where a tip is no commit.
 *
 * @throws GitFailed; the signal's reason
 */
async function compareTips(
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
  const lines = output.split('\n')
  let at = 0
  const moves = new Map<RefUpdate, Move>()
  for (const update of updates) {
    const isCommit = lines[at++] === update.new
    let move: Move = 'created'
    if (!NO_OBJECT.test(update.old)) {
      const isFromCommit = lines[at++] === update.old
      // The two tips, then the ancestors.
      at += 2
      let isForward = false
      for (; lines[at]?.startsWith('^'); at++) isForward ||= lines[at] === `^${update.old}`
      move = !isFromCommit ? 'not from a commit' : isForward ? 'forward' : 'forced'
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
  const options = { timeout: TIMEOUT, signal, input: ids.join('\n') }
  const lines = await readGit(repository, ['cat-file', format], options)
  return new Set(lines.match(/(?<=^commit ).+$/gm))
}

/**
 * Returns the commits to which ids lead, through any number of annotated tags; without those that
 * lead to none.
 */
async function peelToCommits(
  repository: OpenedRepository,
  ids: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<Map<string, string>> {
  const commits = new Map<string, string>()
  const input = [...ids].map((id) => `${id}^{commit}\n`).join('')
  const args = ['cat-file', '--batch-check=%(objectname)']
  const lines = (await readGit(repository, args, { timeout: TIMEOUT, signal, input })).split('\n')
  for (const [index, id] of [...ids].entries()) {
    const line = lines[index] ?? ''
    if (isFullId(line)) commits.set(id, line)
  }
  return commits
}

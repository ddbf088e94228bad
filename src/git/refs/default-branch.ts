import { open, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { BRANCHES } from '../../domain/ref-names.ts'
import { replaceBy, SyncedDraft, syncPath } from '../../util/durable.ts'
import { hasCode, Unavailable } from '../../util/expected-errors.ts'
import { GitFailed, unavailable } from '../errors.ts'
import { headDraftPath } from '../leftovers.ts'
import type { OpenedRepository } from '../opened-repository.ts'
import { decodeLatin1, readGit } from '../run-git.ts'
import { branchOfRef, readHeadId, readHeadRefs } from './head.ts'
import { hasReftable, readLoose } from './loose-refs.ts'
import { readRefs } from './read-refs.ts'
import { type RefIds, readRefIds } from './ref-ids.ts'

const LIMITS = { count: 1_000, timeout: 10_000 }
/** Setting of a repository: a branch without commits that HEAD keeps, since it was chosen. */
const CHOSEN = 'commitstatus.defaultbranch'
/** Setting of a repository: HEAD leaves a branch that a push deletes. */
const FOLLOWS = 'commitstatus.followpushes'
/** Milliseconds for which a change waits for another one, and after which it tries again. */
const LOCK_WAIT = 2_000
const LOCK_POLL = 20
/** Exit code of `git config --get` for a setting that does not exist. */
const NOT_SET = 1

/** Another process is changing HEAD. */
class HeadLocked extends Unavailable {
  override readonly name = 'HeadLocked'
}

/**
 * Lets HEAD follow the first branch that is pushed: if HEAD names a branch that does not exist,
 * HEAD is set to one that does. Otherwise a repository whose first branch is `master` would look
 * empty, and clones of it would check out nothing.
 *
 * If several branches were pushed at once, it is `main`, else `master`, else the one with the
 * newest commit. Call it before the repository's folders are synced.
 *
 * @param repository one that the server created
 * @param mayMove returns whether HEAD may leave the branch that it names
 * @returns the branches before and after; null if HEAD stays
 */
export async function followFirstBranch(
  repository: OpenedRepository,
  mayMove: (from: string) => boolean,
): Promise<{ from: string; to: string } | null> {
  // Usually HEAD leads to a commit: a few small files are read, and no process starts.
  if ((await readHeadId(repository.path)) !== null) return null

  let move: { from: string; to: string } | null = null
  const wantedBranch = async () => {
    move = null
    const { defaultBranch, head, branches } = await readRefs(repository, LIMITS)
    if (head !== null || defaultBranch === null) return undefined
    // git lists no branch whose file is damaged.
    const [ref = ''] = (await readHeadRefs(repository)).slice(-1)
    if ((await readLoose(repository.path, ref)) !== undefined) return undefined
    const names = branches.map(({ name }) => name)
    const first = ['main', 'master'].find((name) => names.includes(name)) ?? names[0]
    if (first === undefined || !mayMove(defaultBranch)) return undefined
    if ((await chosenBranch(repository)) === defaultBranch) return undefined
    move = { from: defaultBranch, to: first }
    return first
  }

  try {
    if ((await wantedBranch()) === undefined) return null
    // Asked again under the lock: another push may have moved HEAD meanwhile.
    await changeHead(repository, wantedBranch)
    return move
  } catch (error) {
    // The other push takes care of it.
    if (error instanceof HeadLocked) return null
    throw unavailable(repository.path, error)
  }
}

/**
 * Sets the branch that HEAD names. It is on disk when this returns.
 *
 * ```
 *   HEAD.lock ─▶ HEAD is read ─▶ record(from, to) ─▶ HEAD is replaced ─▶ unlocked ─▶ synced
 *                                    └─ throws: HEAD stays   └─ fails: record(to, from)
 * ```
 *
 * So records follow each other, and the database is not locked while git and the disk work. A refusal
 * is known before git has anything to undo; a kill after the record leaves HEAD as it was.
 *
 * @param keep whether HEAD stays there even if another branch is pushed first
 * @param record records the branch before, which is null for none, and the branch since then
 * @throws HeadLocked; as `record`
 */
export async function setDefaultBranch(
  repository: OpenedRepository,
  branch: string,
  keep: boolean,
  record: (from: string | null, to: string | null) => Promise<void>,
): Promise<void> {
  await withHead(repository, branch, (replace) =>
    waitForLock(repository.path, async () => {
      const from = branchOfRef((await readHeadRefs(repository))[0])
      const chosen = keep ? await chosenBranch(repository) : ''
      if (keep) await configure(repository, CHOSEN, branch)
      try {
        await record(from, branch)
        await replace().catch(async (error: unknown) => {
          await record(branch, from)
          throw error
        })
      } catch (error) {
        if (keep) await configure(repository, CHOSEN, chosen)
        throw error
      }
    }),
  )
}

/** Prepares a new HEAD, which `work` can put into its place, and waits until it is on disk. */
async function withHead(
  repository: OpenedRepository,
  branch: string,
  work: (replace: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const { path } = repository
  if (!(await hasReftable(path))) return withDraft(path, branch, work)
  await work(() => writeSymbolic(repository, branch))
  await syncPath(join(path, 'reftable'))
}

/**
 * Sets whether HEAD leaves a branch that a push deletes: see `leaveDeletedBranch`.
 *
 * @param record records whether it did before, and does since then; if it fails, nothing changes.
 * Called again, the other way round, if git fails afterwards
 * @throws HeadLocked; GitFailed; as `record`
 */
export async function setFollowing(
  repository: OpenedRepository,
  follows: boolean,
  record: (from: boolean, to: boolean) => Promise<void>,
): Promise<void> {
  await waitForLock(repository.path, async () => {
    const from = await followsDeletions(repository)
    await record(from, follows)
    if (follows === from) return
    await configure(repository, FOLLOWS, String(follows)).catch(async (error: unknown) => {
      await record(follows, from)
      throw error
    })
  })
}

/**
 * Returns whether HEAD leaves a branch that a push deletes.
 *
 * @throws RepositoryUnavailable
 */
export async function followsDeletions(repository: OpenedRepository): Promise<boolean> {
  const value = await readSetting(repository, FOLLOWS).catch((error: unknown) => {
    throw unavailable(repository.path, error)
  })
  return value === 'true'
}

/**
 * Lets HEAD leave a branch that was deleted: for the first of `created` that continues it, else the
 * first of `usual` that exists. Names of refs are full, and decoded as Latin-1.
 *
 * @param isAgain whether an earlier call for the deletion was cut off: where HEAD is then is taken for
 * its work
 * @returns the ref that HEAD names now; null if the branch exists, HEAD names another one already or
 * stays locked, or there is nowhere to go
 */
export async function leaveDeletedBranch(
  repository: OpenedRepository,
  deleted: { ref: string; old: string },
  { created, usual }: { created: readonly string[]; usual: readonly string[] },
  isAgain: boolean,
): Promise<string | null> {
  let left: string | null = null
  const successor = async () => {
    const [head] = await readHeadRefs(repository)
    const ids = await readRefIds(repository, [deleted.ref, ...created, ...usual], {})
    if (ids.has(deleted.ref)) return undefined
    if (head !== deleted.ref) {
      left = isAgain ? (head ?? null) : null
      return undefined
    }
    const continuing = await findContinuing(repository, deleted.old, created, ids)
    left = continuing ?? usual.find((ref) => ids.has(ref)) ?? null
    return left === null ? undefined : decodeLatin1(left.slice(BRANCHES.length))
  }
  try {
    // What another process has made of HEAD is known once it is done.
    await changeHead(repository, successor, waitForLock)
    return left
  } catch (error) {
    if (error instanceof HeadLocked) return null
    throw unavailable(repository.path, error)
  }
}

/** Returns the first of several refs that is at a commit, else the first at a descendant of it. */
async function findContinuing(
  repository: OpenedRepository,
  sha: string,
  refs: readonly string[],
  ids: RefIds,
): Promise<string | undefined> {
  const same = refs.find((ref) => ids.get(ref) === sha)
  if (same !== undefined || refs.length === 0) return same
  const args = ['for-each-ref', `--contains=${sha}`, '--format=%(refname)', BRANCHES]
  const containing = new Set((await readGit(repository, args, { timeout: LIMITS.timeout })).split('\n'))
  return refs.find((ref) => containing.has(ref))
}

/** Sets HEAD, under its lock, to the branch that `choose` returns, unless that is undefined. */
async function changeHead(
  repository: OpenedRepository,
  choose: () => Promise<string | undefined>,
  lock = underLock,
): Promise<void> {
  await lock(repository.path, async () => {
    const branch = await choose()
    if (branch !== undefined) await withHead(repository, branch, (replace) => replace())
  })
}

/** As `underLock`, once another process has changed HEAD. */
async function waitForLock(path: string, work: () => Promise<void>): Promise<void> {
  for (const deadline = performance.now() + LOCK_WAIT; ; ) {
    try {
      return await underLock(path, work)
    } catch (error) {
      if (!(error instanceof HeadLocked) || performance.now() >= deadline) throw error
      await setTimeout(LOCK_POLL)
    }
  }
}

/**
 * Locks HEAD as git does, by creating a file. git has another lock for a reftable, which it holds
 * only while it writes: there, this keeps only servers from changing HEAD at once.
 */
async function underLock(path: string, work: () => Promise<void>): Promise<void> {
  const lock = join(path, 'HEAD.lock')
  const handle = await open(lock, 'wx', 0o600).catch((error: unknown) => {
    if (hasCode(error, 'EEXIST')) throw new HeadLocked(`another process is changing HEAD (${lock} exists)`)
    throw error
  })
  try {
    await work()
  } finally {
    await handle.close()
    await rm(lock)
  }
}

/** Writes a new HEAD, which `work` can put into its place. git would not sync it. */
async function withDraft(
  path: string,
  branch: string,
  work: (replace: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const head = join(path, 'HEAD')
  const { mode } = await stat(head)
  const file = headDraftPath(path)
  try {
    await writeFile(file, `ref: ${BRANCHES}${branch}\n`, { mode: mode & 0o777 })
    const draft = await SyncedDraft.of(file)
    await work(() => replaceBy(draft, head))
    await syncPath(path)
  } finally {
    await rm(file, { force: true })
  }
}

async function writeSymbolic(repository: OpenedRepository, branch: string): Promise<void> {
  await readGit(repository, ['symbolic-ref', 'HEAD', `${BRANCHES}${branch}`])
}

/** Stores a setting of the repository. */
async function configure(repository: OpenedRepository, setting: string, value: string): Promise<void> {
  const { path } = repository
  await readGit(repository, ['config', setting, value])
  await syncPath(join(path, 'config'))
  await syncPath(path)
}

/** Returns the branch that HEAD keeps; empty for none. */
function chosenBranch(repository: OpenedRepository): Promise<string> {
  return readSetting(repository, CHOSEN)
}

async function readSetting(repository: OpenedRepository, name: string): Promise<string> {
  const value = await readGit(repository, ['config', '--get', name]).catch((error: unknown) => {
    if (error instanceof GitFailed && error.code === NOT_SET) return ''
    throw error
  })
  return decodeLatin1(value).trim()
}

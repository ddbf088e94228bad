import { open, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { BRANCHES } from '../../domain/ref-names.ts'
import { hasCode, nullOnSystemError } from '../../errors.ts'
import { replaceBy, SyncedDraft, syncPath } from '../../util/durable.ts'
import { GitFailed, unavailable } from '../errors.ts'
import { statIfExists } from '../file-state.ts'
import { headDraftPath } from '../leftovers.ts'
import type { OpenedRepository } from '../opened-repository.ts'
import { decodeLatin1, readGit } from '../run-git.ts'
import { headPaths } from './head.ts'
import { readRefs } from './read-refs.ts'

const LIMITS = { count: 1_000, timeout: 10_000 }
/** Setting of a repository: a branch without commits that HEAD keeps, since it was chosen. */
const CHOSEN = 'commitstatus.defaultbranch'
/** Exit code of `git config --get` for a setting that does not exist. */
const NOT_SET = 1

/** Another process is changing HEAD. */
class HeadLocked extends Error {
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
 */
export async function followFirstBranch(
  repository: OpenedRepository,
  mayMove: (from: string) => boolean,
): Promise<void> {
  // Usually HEAD names a branch with a file of its own: two small files are read, and no process starts.
  if (await isLooseRef(repository.path)) return

  const wantedBranch = async () => {
    const { defaultBranch, head, branches } = await readRefs(repository, LIMITS)
    if (head !== null || defaultBranch === null) return undefined
    const names = branches.map(({ name }) => name)
    const first = ['main', 'master'].find((name) => names.includes(name)) ?? names[0]
    if (first === undefined || !mayMove(defaultBranch)) return undefined
    return (await chosenBranch(repository)) === defaultBranch ? undefined : first
  }

  try {
    if ((await wantedBranch()) === undefined) return
    // Asked again under the lock: another push may have moved HEAD meanwhile.
    await changeHead(repository, wantedBranch)
  } catch (error) {
    // The other push takes care of it.
    if (!(error instanceof HeadLocked)) throw unavailable(repository.path, error)
  }
}

/**
 * Sets the branch that HEAD names, as a part of `work`. It is on disk when this returns.
 *
 * @param keep whether HEAD stays there even if another branch is pushed first
 * @param work may hold a lock of the database: what it calls renames a file, and neither syncs nor
 * runs git, unless refs are in a reftable, which git alone writes. If it fails, HEAD stays
 */
export async function setDefaultBranch(
  repository: OpenedRepository,
  branch: string,
  keep: boolean,
  work: (apply: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const chosen = keep ? await chosenBranch(repository) : ''
  if (keep) await choose(repository, branch)
  try {
    await applyWithin(repository, branch, work)
  } catch (error) {
    if (keep) await choose(repository, chosen)
    throw error
  }
}

async function applyWithin(
  repository: OpenedRepository,
  branch: string,
  work: (apply: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const { path } = repository
  if (await hasReftable(path)) {
    await work(() => writeSymbolic(repository, branch))
    return syncPath(join(path, 'reftable'))
  }

  await withDraft(path, branch, (replace) => work(() => underLock(path, replace)))
}

/** Sets HEAD, under its lock, to the branch that `choose` returns, unless that is undefined. */
async function changeHead(
  repository: OpenedRepository,
  choose: () => Promise<string | undefined>,
): Promise<void> {
  const { path } = repository
  // Its tables have a lock of their own, which git holds only while it writes.
  if (await hasReftable(path)) {
    const branch = await choose()
    if (branch === undefined) return
    await writeSymbolic(repository, branch)
    return syncPath(join(path, 'reftable'))
  }

  await underLock(path, async () => {
    const branch = await choose()
    if (branch !== undefined) await withDraft(path, branch, (replace) => replace())
  })
}

/** Locks HEAD as git does, by creating a file. */
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

async function hasReftable(path: string): Promise<boolean> {
  return (await statIfExists(join(path, 'reftable'))) !== null
}

async function writeSymbolic(repository: OpenedRepository, branch: string): Promise<void> {
  await readGit(repository, ['symbolic-ref', 'HEAD', `${BRANCHES}${branch}`])
}

/** Stores the branch that HEAD keeps; empty for none. */
async function choose(repository: OpenedRepository, branch: string): Promise<void> {
  const { path } = repository
  await readGit(repository, ['config', CHOSEN, branch])
  await syncPath(join(path, 'config'))
  await syncPath(path)
}

/** Returns whether HEAD leads to a ref with a file of its own. */
async function isLooseRef(path: string): Promise<boolean> {
  const last = (await headPaths(path)).at(-1) ?? ''
  if (last === join(path, 'HEAD')) return false
  return (await statIfExists(last).catch(nullOnSystemError)) !== null
}

async function chosenBranch(repository: OpenedRepository): Promise<string> {
  const name = await readGit(repository, ['config', '--get', CHOSEN]).catch((error: unknown) => {
    if (error instanceof GitFailed && error.code === NOT_SET) return ''
    throw error
  })
  return decodeLatin1(name).trim()
}

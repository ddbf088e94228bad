import { open, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { BRANCHES } from '../../domain/ref-names.ts'
import { hasCode, nullOnSystemError } from '../../errors.ts'
import { publish, syncPath } from '../../util/durable.ts'
import { GitFailed, unavailable } from '../errors.ts'
import { statIfExists } from '../file-state.ts'
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
 * Sets the branch that HEAD names. It is on disk when this returns.
 *
 * @param keep whether HEAD stays there even if another branch is pushed first
 */
export async function setDefaultBranch(
  repository: OpenedRepository,
  branch: string,
  keep: boolean,
): Promise<void> {
  const { path } = repository
  if (keep) {
    await readGit(repository, ['config', CHOSEN, branch])
    await syncPath(join(path, 'config'))
    await syncPath(path)
  }
  await changeHead(repository, async () => branch)
}

/** Sets HEAD, under its lock, to the branch that `choose` returns, unless that is undefined. */
async function changeHead(
  repository: OpenedRepository,
  choose: () => Promise<string | undefined>,
): Promise<void> {
  const { path } = repository
  // Its tables have a lock of their own, which git holds only while it writes.
  if ((await statIfExists(join(path, 'reftable'))) !== null) {
    const branch = await choose()
    if (branch === undefined) return
    await readGit(repository, ['symbolic-ref', 'HEAD', `${BRANCHES}${branch}`])
    return syncPath(join(path, 'reftable'))
  }

  const [head, lock] = [join(path, 'HEAD'), join(path, 'HEAD.lock')]
  const { mode } = await stat(head)
  // git locks HEAD by creating the same file.
  const handle = await open(lock, 'wx', mode & 0o777).catch((error: unknown) => {
    if (hasCode(error, 'EEXIST')) throw new HeadLocked(`another process is changing HEAD (${lock} exists)`)
    throw error
  })

  let locked = true
  try {
    const branch = await choose()
    if (branch === undefined) return
    await handle.writeFile(`ref: ${BRANCHES}${branch}\n`)
    // git would not sync HEAD.
    await publish(lock, head)
    locked = false
  } finally {
    await handle.close()
    if (locked) await rm(lock)
  }
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

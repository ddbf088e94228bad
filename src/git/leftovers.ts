import { randomBytes } from 'node:crypto'
import { lstat, readdir, readFile, rm } from 'node:fs/promises'
import { uptime } from 'node:os'
import { join } from 'node:path'
import { emptyWhenMissing, isMissing, nullOnSystemError } from '../util/expected-errors.ts'
import { walk } from '../util/walk.ts'
import { unavailable } from './errors.ts'

const QUARANTINE = /^tmp_objdir-incoming-/
const HEAD_DRAFT = /^HEAD\.new-[0-9a-f]{16}$/
const DRAFT = /^new-[0-9a-f]{16}\.git$/
/** Milliseconds after which nobody works any more on what has no limit of time. */
const UNLIMITED = 24 * 60 * 60 * 1000
/** Milliseconds after which a lock is stale. git holds a lock on refs only for seconds. */
const LONGEST_LOCK = 10 * 60 * 1000
const LOCKS = [
  'HEAD.lock',
  'packed-refs.lock',
  'packed-refs.new',
  'reftable/tables.list.lock',
  'shallow.lock',
]

/** Returns the path of a file that is to replace HEAD of a repository. */
export function headDraftPath(path: string): string {
  return join(path, `HEAD.new-${randomBytes(8).toString('hex')}`)
}

/** Returns a path, in the server's own folder, for a repository that has no row yet. */
export function draftPath(folder: string): string {
  return join(folder, `new-${randomBytes(8).toString('hex')}.git`)
}

/**
 * Removes what killed processes have left: objects of pushes that git could neither accept nor
 * remove, which are as large as the push, and repositories of `draftPath`. Throws the first error
 * after it has gone on with the other repositories.
 *
 * @param folder the server's own folder of repositories
 * @param imported absolute paths of other repositories, into which others may push without a limit
 * of time
 * @param longest milliseconds that a push may take. Another process, also of another machine, may
 * be working on one
 */
export async function removeLeftovers(
  folder: string,
  imported: readonly string[],
  longest: number,
): Promise<void> {
  const errors: unknown[] = []
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(emptyWhenMissing)) {
    if (!entry.isDirectory()) continue
    const repository = join(folder, entry.name)
    if (DRAFT.test(entry.name)) await removeOlder(repository, Math.max(longest, UNLIMITED))
    await removeQuarantines(repository, longest).catch((error: unknown) => errors.push(error))
  }

  // `check` reports one that cannot be read.
  for (const repository of imported)
    await removeQuarantines(repository, Math.max(longest, UNLIMITED)).catch(nullOnSystemError)
  if (errors.length > 0) throw errors[0]
}

/**
 * Also removes what keeps a pack out of garbage collections until the refs of its push are stored.
 */
async function removeQuarantines(repository: string, longest: number): Promise<void> {
  const objects = join(repository, 'objects')
  const names = await readdir(objects).catch(emptyWhenMissing)
  for (const name of names.filter((name) => QUARANTINE.test(name)))
    await removeOlder(join(objects, name), longest)

  // Others keep packs too, for a reason of their own.
  const packs = join(objects, 'pack')
  for (const name of (await readdir(packs).catch(emptyWhenMissing)).filter((name) =>
    name.endsWith('.keep'),
  )) {
    const file = join(packs, name)
    const text = await readFile(file, 'latin1').catch(nullOnSystemError)
    if (text?.startsWith('receive-pack ')) await removeOlder(file, longest)
  }
}

/**
 * Removes lock files on a repository's refs, and drafts of HEAD, that a power cut or a killed process
 * has left behind. git never removes them and would refuse every push to such a branch.
 *
 * A lock is stale if it is older than the last start of this machine or than ten minutes.
 */
export async function removeStaleLocks(path: string): Promise<void> {
  const longest = Math.min(uptime() * 1000, LONGEST_LOCK)
  try {
    const drafts = (await readdir(path)).filter((name) => HEAD_DRAFT.test(name))
    for (const name of [...LOCKS, ...drafts]) await removeOlder(join(path, name), longest)
    // A link may lead to any folder, whose locks are not git's.
    if (!(await lstat(join(path, 'refs'))).isDirectory()) return
    // The name of a ref cannot end in `.lock` (git-check-ref-format(1)).
    for await (const { path: file, isFolder } of walk(join(path, 'refs'))) {
      if (!isFolder && file.endsWith('.lock')) await removeOlder(file, longest)
    }
  } catch (error) {
    throw unavailable(path, error)
  }
}

/**
 * Removes what a push of a killed server has left behind: the objects that it received, and its
 * locks on refs. A garbage collection locks refs too.
 *
 * @param refs that the push named, decoded as Latin-1
 * @param before milliseconds since the epoch; newer files are of others
 */
export async function removeInterrupted(
  path: string,
  refs: ReadonlySet<string>,
  before: number,
): Promise<void> {
  const age = Date.now() - before
  await removeQuarantines(path, age)
  if ((await readdir(path)).includes('gc.pid')) return
  for (const name of LOCKS) await removeOlder(join(path, name), age)
  const locks = new Set([...refs].map((ref) => join(path, `${Buffer.from(ref, 'latin1')}.lock`)))
  for await (const { path: file } of walk(join(path, 'refs')))
    if (locks.has(file)) await removeOlder(file, age)
}

/**
 * Removes a file, or a folder in which nothing was created, that is older than so many
 * milliseconds.
 */
async function removeOlder(path: string, longest: number): Promise<void> {
  try {
    if ((await lstat(path)).mtimeMs < Date.now() - longest) await rm(path, { recursive: true })
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}

import { randomBytes } from 'node:crypto'
import { lstat, readdir, rm } from 'node:fs/promises'
import { uptime } from 'node:os'
import { join } from 'node:path'
import { emptyWhenMissing, isMissing } from '../util/missing.ts'
import { walk } from '../util/walk.ts'
import { unavailable } from './repository-health.ts'

const QUARANTINE = /^tmp_objdir-incoming-/
const DRAFT = /^new-[0-9a-f]{16}\.git$/
/** Milliseconds after which a lock is stale. git holds a lock on refs only while it writes. */
const LONGEST_LOCK = 10 * 60 * 1000
const LOCKS = [
  'HEAD.lock',
  'packed-refs.lock',
  'packed-refs.new',
  'reftable/tables.list.lock',
  'shallow.lock',
]

/** Returns a path for a repository that has no row yet. @param folder the server's own folder of repositories */
export function draftPath(folder: string): string {
  return join(folder, `new-${randomBytes(8).toString('hex')}.git`)
}

/**
 * Removes what processes have left that were killed or lost power: objects of pushes that git could neither accept nor
 * remove, which are as large as the push, and repositories of `draftPath`.
 *
 * @param folder the server's own folder of repositories
 * @param longest milliseconds that a push or a command may take. Another process may be working on one
 * @throws the system's error
 */
export async function removeLeftovers(folder: string, longest: number): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(emptyWhenMissing)) {
    if (!entry.isDirectory()) continue
    const repository = join(folder, entry.name)
    if (DRAFT.test(entry.name)) await removeOlder(repository, longest)
    const objects = join(repository, 'objects')
    const names = await readdir(objects).catch(emptyWhenMissing)
    for (const name of names.filter((name) => QUARANTINE.test(name)))
      await removeOlder(join(objects, name), longest)
  }
}

/**
 * Removes lock files on a repository's refs that a power cut or a killed git has left behind. git never removes them and
 * would refuse every push to such a branch.
 *
 * @param path absolute path of the git directory
 * @throws RepositoryUnavailable if files cannot be listed or a stale lock cannot be removed
 */
export async function removeStaleLocks(path: string): Promise<void> {
  try {
    for (const name of LOCKS) await removeOlder(join(path, name), LONGEST_LOCK)
    // A link may lead to any folder, whose locks are not git's.
    if (!(await lstat(join(path, 'refs'))).isDirectory()) return
    // The name of a ref cannot end in `.lock` (git-check-ref-format(1)).
    for await (const { path: file, isFolder } of walk(join(path, 'refs'))) {
      if (!isFolder && file.endsWith('.lock')) await removeOlder(file, LONGEST_LOCK)
    }
  } catch (error) {
    throw unavailable(path, error)
  }
}

/**
 * Removes a file, or a folder in which nothing was created, that is older than `longest` milliseconds, or than the last start of
 * this machine: then it is not in use.
 */
async function removeOlder(path: string, longest: number): Promise<void> {
  const oldest = Date.now() - Math.min(uptime() * 1000, longest)
  try {
    if ((await lstat(path)).mtimeMs < oldest) await rm(path, { recursive: true })
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}

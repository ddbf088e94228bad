import { lstat, rm } from 'node:fs/promises'
import { uptime } from 'node:os'
import { join } from 'node:path'
import { unavailable } from '../../git/repository-health.ts'
import { isMissing } from '../../util/missing.ts'
import { walk } from '../../util/walk.ts'

/** Milliseconds after which a lock is stale. git holds a lock on refs only while it writes. */
const LONGEST = 10 * 60 * 1000
const LOCKS = [
  'HEAD.lock',
  'packed-refs.lock',
  'packed-refs.new',
  'reftable/tables.list.lock',
  'shallow.lock',
]

/**
 * Removes lock files on a repository's refs that a power cut or a killed git has left behind. git never removes them and
 * would refuse every push to such a branch.
 *
 * A lock is stale if it is older than the last start of this machine or than ten minutes.
 *
 * @param path absolute path of the git directory
 * @throws RepositoryUnavailable if files cannot be listed or a stale lock cannot be removed
 */
export async function removeStaleLocks(path: string): Promise<void> {
  const oldest = Date.now() - Math.min(uptime() * 1000, LONGEST)
  try {
    for (const name of LOCKS) await removeOlder(join(path, name), oldest)
    // A link may lead to any folder, whose locks are not git's.
    if (!(await lstat(join(path, 'refs'))).isDirectory()) return
    // The name of a ref cannot end in `.lock` (git-check-ref-format(1)).
    for await (const { path: file, isFolder } of walk(join(path, 'refs'))) {
      if (!isFolder && file.endsWith('.lock')) await removeOlder(file, oldest)
    }
  } catch (error) {
    throw unavailable(path, error)
  }
}

async function removeOlder(file: string, oldest: number): Promise<void> {
  try {
    if ((await lstat(file)).mtimeMs < oldest) await rm(file)
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}

import { rm, stat } from 'node:fs/promises'
import { uptime } from 'node:os'
import { join } from 'node:path'
import { isMissing } from '../util/missing.ts'
import { walk } from '../util/walk.ts'
import { unavailable } from './repository-health.ts'

/** Milliseconds for which git may hold a lock on refs; it takes one for as long as it writes. */
const LONGEST = 10 * 60 * 1000
const LOCKS = ['HEAD.lock', 'packed-refs.lock', 'packed-refs.new', 'shallow.lock']

/**
 * Removes the lock files that a power cut or a killed git has left on a repository's refs. git itself never does so: it
 * would refuse every push to such a branch until somebody removed the file by hand.
 *
 * A lock is stale when it is older than this machine's last start, or than git ever holds one.
 *
 * @param path absolute path of the git directory
 * @param gitDir the one that git runs on: see `gitDirOf`
 * @throws RepositoryUnavailable when its files cannot be listed or a stale lock cannot be removed
 */
export async function removeStaleLocks(path: string, gitDir = path): Promise<void> {
  const oldest = Date.now() - Math.min(uptime() * 1000, LONGEST)
  try {
    for (const folder of new Set([path, gitDir])) {
      for (const name of LOCKS) await removeOlder(join(folder, name), oldest)
    }
    // No ref ends in `.lock` (git-check-ref-format(1)).
    for await (const { path: file, isFolder } of walk(join(path, 'refs'))) {
      if (!isFolder && file.endsWith('.lock')) await removeOlder(file, oldest)
    }
  } catch (error) {
    throw unavailable(path, error)
  }
}

async function removeOlder(file: string, oldest: number): Promise<void> {
  try {
    if ((await stat(file)).mtimeMs < oldest) await rm(file)
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}

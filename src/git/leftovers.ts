import { randomBytes } from 'node:crypto'
import { lstat, readdir, rm } from 'node:fs/promises'
import { uptime } from 'node:os'
import { join } from 'node:path'
import { emptyWhenMissing, isMissing } from '../util/missing.ts'

const QUARANTINE = /^tmp_objdir-incoming-/
const DRAFT = /^new-[0-9a-f]{16}\.git$/

/** Returns a path for a repository that has no row yet. @param folder the server's own folder of repositories */
export function draftPath(folder: string): string {
  return join(folder, `new-${randomBytes(8).toString('hex')}.git`)
}

/**
 * Removes what processes have left that were killed or lost power: objects of pushes that git could neither accept nor
 * remove, which are as large as the push, and repositories of `draftPath`.
 *
 * @param folder the server's own folder of repositories
 * @param longest milliseconds that a push or a command may take. Another process may be working on one; those from before
 *   the last start of this machine are never in use
 * @throws the system's error
 */
export async function removeLeftovers(folder: string, longest: number): Promise<void> {
  const oldest = Date.now() - Math.min(uptime() * 1000, longest)
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(emptyWhenMissing)) {
    if (!entry.isDirectory()) continue
    const repository = join(folder, entry.name)
    if (DRAFT.test(entry.name) && (await isOlder(repository, oldest))) {
      await rm(repository, { recursive: true, force: true })
      continue
    }
    const objects = join(repository, 'objects')
    for (const name of await readdir(objects).catch(emptyWhenMissing)) {
      const path = join(objects, name)
      if (QUARANTINE.test(name) && (await isOlder(path, oldest)))
        await rm(path, { recursive: true, force: true })
    }
  }
}

/** Returns whether nothing was created in a folder since `oldest`. */
async function isOlder(path: string, oldest: number): Promise<boolean> {
  try {
    return (await lstat(path)).mtimeMs < oldest
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

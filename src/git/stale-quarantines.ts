import { lstat, readdir, rm } from 'node:fs/promises'
import { uptime } from 'node:os'
import { join } from 'node:path'
import { emptyWhenMissing, isMissing } from '../util/missing.ts'

const QUARANTINE = /^tmp_objdir-incoming-/

/**
 * Removes objects of pushes whose git was killed or lost power before it could accept or remove them. They are as large as
 * the push.
 *
 * @param folder the server's own folder of repositories
 * @param longest milliseconds that a push may take. Another process may be receiving one; those from before the last start of
 * this machine are never in use
 * @throws the system's error
 */
export async function removeStaleQuarantines(folder: string, longest: number): Promise<void> {
  const oldest = Date.now() - Math.min(uptime() * 1000, longest)
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(emptyWhenMissing)) {
    if (!entry.isDirectory()) continue
    const objects = join(folder, entry.name, 'objects')
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

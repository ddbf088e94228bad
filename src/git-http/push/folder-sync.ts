import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { LRUCache } from 'lru-cache'
import { unavailable } from '../../git/errors.ts'
import { isSettled } from '../../git/file-state.ts'
import { FAN_OUT } from '../../git/repository-health.ts'
import { limitConcurrency } from '../../schedule/limit-concurrency.ts'
import { syncPath } from '../../util/durable.ts'
import { isMissing } from '../../util/expected-errors.ts'
import { entriesUpTo } from '../../util/memory.ts'
import { walk } from '../../util/walk.ts'

/** Maximum number of remembered folders; they take about 10 MB. */
const LIMIT = 50_000
/**
 * Syncing blocks threads that all file access of this process shares. Repositories take turns
 * folder by folder, so that one with any number of folders does not delay pushes to the others.
 */
const inTurn = limitConcurrency(2)

/** See `createFolderSync`. */
export type SyncFolders = ReturnType<typeof createFolderSync>

/**
 * Creates a function that waits until the folders of a repository are on disk. `core.fsync` does not
 * cover them: git syncs the content of files, but not the folder after it has moved a file to its final
 * name.
 *
 * All folders are checked, not only those that one push can have changed, because a push relies on
 * objects of earlier pushes, including those whose client or server ended before the sync. A folder
 * that has not changed since the function last synced it costs one `stat`. A sync costs a flush of
 * the disk, even if nothing changed.
 *
 * Packs are synced before other objects, objects before refs. So on a file system that syncs
 * folders one by one, a name on disk always refers to data on disk, and a loose object or ref is
 * not lost before the pack that replaces it is on disk. While git is running, that order depends on
 * the file system: ext4, XFS, Btrfs and ZFS keep it.
 */
export function createFolderSync() {
  /** The state in which each folder was last synced. */
  const syncedStates = new LRUCache<string, string>(entriesUpTo(LIMIT))

  async function syncWhenChanged(folder: string): Promise<void> {
    const now = Date.now()
    const { ino, ctimeNs } = await stat(folder, { bigint: true })
    const state = `${ino}:${ctimeNs}`
    if (syncedStates.get(folder) === state) return
    // A later change may get the same timestamp. Compare before the sync, which can take seconds.
    const isOld = isSettled(ctimeNs, now, 'shared')
    await syncPath(folder)
    if (isOld) syncedStates.set(folder, state)
  }

  /** @throws RepositoryUnavailable */
  return async (path: string): Promise<void> => {
    try {
      for await (const folder of foldersOf(path)) {
        await inTurn(() => syncWhenChanged(folder)).catch((error: unknown) => {
          // The folder was removed meanwhile, for example with the last branch in it.
          if (!isMissing(error)) throw error
        })
      }
    } catch (error) {
      throw unavailable(path, error)
    }
  }
}

async function* foldersOf(path: string): AsyncGenerator<string> {
  const objects = join(path, 'objects')
  yield join(objects, 'pack')
  for (const name of await readdir(objects)) if (FAN_OUT.test(name)) yield join(objects, name)
  yield* foldersIn(join(objects, 'info'))
  yield objects
  yield path
  for (const name of ['refs', 'reftable', 'logs']) yield* foldersIn(join(path, name))
}

async function* foldersIn(folder: string): AsyncGenerator<string> {
  for await (const { path, isFolder } of walk(folder)) if (isFolder) yield path
}

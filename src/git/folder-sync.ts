import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { syncPath } from '../util/durable.ts'
import { limitConcurrency } from '../util/limit-concurrency.ts'
import { isMissing } from '../util/missing.ts'
import { walk } from '../util/walk.ts'
import { FAN_OUT, unavailable } from './repository-health.ts'

/** Milliseconds after which a change gets another timestamp than an earlier one, on every file system. */
const DISTINCT = 2_000
/** Folders remembered, at most: some 10 MB. */
const LIMIT = 50_000
/** The state in which each folder was last synced. */
const synced = new Map<string, string>()
/** Syncing blocks threads that serve all file access of this process. */
const inTurn = limitConcurrency(2)

/**
 * Waits until the folders of a repository are on disk, which `core.fsync` leaves out: git syncs the content of what it
 * writes, but no folder after it has moved a file to its final name there.
 *
 * All folders are looked at, not only those that one push can have changed, because a push relies on objects of earlier
 * ones, also of those whose client or server was gone before they were synced. A folder that has not changed since this
 * process last synced it costs one `stat`; otherwise a sync costs a flush of the disk, whether anything changed or not.
 *
 * Packs come before other objects, objects before refs. So a file system that syncs folders one by one never has a name
 * on disk without what it refers to, and does not lose a loose object or ref before the pack that replaces it is there.
 * While git itself works, that order is up to the file system: ext4, XFS, Btrfs and ZFS keep it.
 *
 * @param path absolute path of the git directory
 * @throws RepositoryUnavailable when a folder cannot be synced
 */
export function syncFolders(path: string): Promise<void> {
  return inTurn(async () => {
    try {
      for await (const folder of foldersOf(path)) {
        await syncWhenChanged(folder).catch((error) => {
          // Removed meanwhile, for example with the last branch in it.
          if (!isMissing(error)) throw error
        })
      }
    } catch (error) {
      throw unavailable(path, error)
    }
  })
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

async function syncWhenChanged(folder: string): Promise<void> {
  const { ino, ctimeNs, ctimeMs } = await stat(folder, { bigint: true })
  const state = `${ino}:${ctimeNs}`
  if (synced.get(folder) === state) return
  await syncPath(folder)
  // A change right after the `stat` may have the same timestamp where the file system's clock is coarse.
  if (Date.now() - Number(ctimeMs) < DISTINCT) return
  if (synced.size >= LIMIT) synced.clear()
  synced.set(folder, state)
}

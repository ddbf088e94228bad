import { constants } from 'node:fs'
import { mkdir, open, readdir, rename, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/**
 * Waits until the content of a file, or the names in a folder, are on disk. Creating, renaming or removing a file is
 * durable only after the folder that holds its name is synced; syncing the file is not enough (fsync(2)).
 */
export async function syncPath(path: string): Promise<void> {
  // Does not block on a pipe, which others may have put at this path.
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    await handle.sync()
  } catch (error) {
    // Some network and FUSE file systems cannot sync a folder.
    if (!(error instanceof Error && 'code' in error && error.code === 'EINVAL')) throw error
  } finally {
    await handle.close()
  }
}

/** Syncs a folder, everything below it, and its parent folder. */
export async function syncTree(path: string): Promise<void> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true })
  for (const entry of entries) {
    if (entry.isFile() || entry.isDirectory()) await syncPath(join(entry.parentPath, entry.name))
  }
  await syncPath(path)
  await syncPath(dirname(path))
}

/** Renames a file or folder, replacing a file at `to`. The new name is on disk when this returns. */
export async function renameDurably(from: string, to: string): Promise<void> {
  await rename(from, to)
  await syncPath(dirname(to))
  if (dirname(from) !== dirname(to)) await syncPath(dirname(from))
}

/** Writes a file that only its owner may read, or replaces it as a whole. Until then its content is in `PATH.part`. */
export async function writeDurably(path: string, text: string): Promise<void> {
  await writeFile(`${path}.part`, text, { flush: true, mode: 0o600 })
  await renameDurably(`${path}.part`, path)
}

/**
 * Creates a folder and its missing parents. Their names are on disk when this returns.
 *
 * `mkdir` with `recursive` would loop forever below a folder in which nothing can be created, such as `/proc`.
 *
 * @throws the system's error, with the path that could not be created
 */
export async function createFolder(path: string, mode?: number): Promise<void> {
  if (await isFolder(path)) return
  await createFolder(dirname(path), mode)
  try {
    await mkdir(path, mode)
  } catch (error) {
    // Another process may have created it meanwhile.
    if (await isFolder(path)) return
    throw error
  }
  await syncPath(dirname(path))
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false
}

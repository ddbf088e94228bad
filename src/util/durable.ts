import { constants } from 'node:fs'
import { link, mkdir, open, readdir, rename, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { hasCode, nullOnSystemError } from './expected-errors.ts'

/**
 * Waits until the content of a file, or the names in a folder, are on disk. Creating, renaming or
 * removing a file is durable only after the folder that holds its name is synced; syncing the file
 * is not enough (fsync(2)).
 */
export async function syncPath(path: string): Promise<void> {
  // Does not block on a pipe, which others may have put at this path.
  const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    await handle.sync()
  } catch (error) {
    // Some network and FUSE file systems cannot sync a folder.
    if (!hasCode(error, 'EINVAL')) throw error
  } finally {
    await handle.close()
  }
}

/** A file or folder that is complete and on disk, under a name that nobody reads. See `publish`. */
export class SyncedDraft {
  readonly #path: string

  private constructor(path: string) {
    this.#path = path
  }

  /**
   * Waits until a file, or a folder and everything below it, is on disk. The only way to get a
   * draft.
   */
  static async of(path: string): Promise<SyncedDraft> {
    if ((await stat(path)).isDirectory())
      for (const entry of await readdir(path, { recursive: true, withFileTypes: true }))
        if (entry.isFile() || entry.isDirectory()) await syncPath(join(entry.parentPath, entry.name))
    await syncPath(path)
    return new SyncedDraft(path)
  }

  get path(): string {
    return this.#path
  }
}

/**
 * Makes a file or folder visible at a place, where it replaces a file. After a power cut, either
 * the whole draft is there or what was there before. This module is the only one that renames or
 * links files, so nothing is visible before it is on disk.
 */
export async function publish(draft: string, place: string): Promise<void> {
  await publishAll([{ draft: await SyncedDraft.of(draft), place }])
}

/** As `publish`, for a draft that is synced already. Durable when the folder of the place is synced. */
export async function replaceBy(draft: SyncedDraft, place: string): Promise<void> {
  await rename(draft.path, place)
}

/** As `publish`, for many drafts: each folder is synced once, after the last of them. */
export async function publishAll(drafts: readonly { draft: SyncedDraft; place: string }[]): Promise<void> {
  await Promise.all(drafts.map(({ draft, place }) => replaceBy(draft, place)))
  const folders = drafts.flatMap(({ draft, place }) => [dirname(place), dirname(draft.path)])
  for (const folder of new Set(folders)) await syncPath(folder)
}

/**
 * As `publish`, for a file, which also keeps its first name.
 *
 * @throws the system's error EEXIST if there is one at the place
 */
export async function publishNew(draft: string, place: string): Promise<void> {
  const { path } = await SyncedDraft.of(draft)
  await link(path, place)
  await syncPath(dirname(place))
}

/**
 * Writes a file that only its owner may read, or replaces it as a whole. Until then its content is
 * in `PATH.part`.
 */
export async function writeDurably(path: string, text: string): Promise<void> {
  await writeFile(`${path}.part`, text, { mode: 0o600 })
  await publish(`${path}.part`, path)
}

/**
 * Creates a folder and its missing parents. Their names are on disk when this returns.
 *
 * `mkdir` with `recursive` would loop forever below a folder in which nothing can be created, such
 * as `/proc`.
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
  return (await stat(path).catch(nullOnSystemError))?.isDirectory() ?? false
}

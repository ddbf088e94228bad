import { constants } from 'node:fs'
import { access, readdir, readFile, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { emptyWhenMissing, isMissing, isSystemError, nullOnSystemError } from '../util/expected-errors.ts'
import { cannotOpen, RepositoryUnavailable, unavailable } from './errors.ts'
import { statIfExists } from './file-state.ts'

const { R_OK, W_OK, X_OK } = constants
/** Names of the folders of loose objects. */
export const FAN_OUT = /^[0-9a-f]{2}$/
const PACK_FILE = /^(?:pack-[0-9a-f]+\.(?:idx|pack)|multi-pack-index)$/

/**
 * Checks that a repository exists and that its files can be opened. git reports `missing` not only
 * for an object that does not exist, but also for one in a file or folder that it cannot open. Only
 * this check tells them apart.
 *
 * @param known see `checkObjects`
 * @returns as `checkObjects`
 */
export async function checkRepositoryFiles(path: string, known?: string): Promise<string> {
  const [state] = await Promise.all([checkObjects(path, known), checkFolder(path)])
  return state
}

/** Checks what git opens first: the folder, which contains no pipe, `HEAD` and `objects`. */
export async function checkFolder(path: string): Promise<void> {
  try {
    const [, , names] = await Promise.all([
      access(join(path, 'objects'), R_OK | X_OK),
      // git also accepts a symbolic link to a ref, which need not have a file.
      access(join(path, 'HEAD'), R_OK).catch(emptyWhenMissing),
      namesIn(path),
    ])
    if (!names.includes('HEAD')) throw cannotOpen(path, 'it has no HEAD')
  } catch (error) {
    throw unavailable(path, error)
  }
}

/**
 * Checks `objects/pack`, the folders of loose objects and the pack files, and that the folders that
 * `objects/info/alternates` names are there. Does not check each loose object, because there may be
 * thousands.
 *
 * @param known result of an earlier call; if it is unchanged, the files are not checked again
 * @returns the state of the objects; it changes when a pack or folder is added or removed
 */
export async function checkObjects(path: string, known?: string): Promise<string> {
  const objects = join(path, 'objects')
  try {
    const [{ mtimeMs, ino }, packs] = await Promise.all([
      stat(objects),
      packState(path),
      checkAlternates(objects),
    ])
    const state = `${ino}:${mtimeMs} ${packs}`
    if (state !== known) await checkFiles(objects)
    return state
  } catch (error) {
    throw unavailable(path, error)
  }
}

/**
 * Returns the state of the packs, which is part of the state of the objects; each push changes the
 * latter.
 */
export function packsOf(state: string): string {
  return state.slice(state.indexOf(' ') + 1)
}

/** Makes sure that a push could write to the repository. */
export async function checkWritable(path: string): Promise<void> {
  try {
    for (const name of ['', 'objects', 'refs']) await access(join(path, name), W_OK | X_OK)
  } catch (error) {
    if (!isSystemError(error)) throw error
    throw new RepositoryUnavailable(`the repository ${path} cannot be written: ${error.message}`, {
      cause: error,
    })
  }
}

/**
 * Returns the state of the repository's packs with one `stat`. It changes when a pack is added or
 * removed, and is empty if there is no folder for packs, which git allows.
 */
export async function packState(path: string): Promise<string> {
  try {
    const { mtimeMs, ino } = await stat(join(path, 'objects', 'pack'))
    return `${ino}:${mtimeMs}`
  } catch (error) {
    if (isMissing(error)) return ''
    throw error
  }
}

/** Returns whether objects of the repository were left out when it was cloned. */
export async function isPartialClone(path: string): Promise<boolean> {
  const names = await readdir(join(path, 'objects', 'pack')).catch(emptyWhenMissing)
  return names.some((name) => name.endsWith('.promisor'))
}

/** Returns whether the history of the repository was cut off when it was cloned. */
export async function isShallowClone(path: string): Promise<boolean> {
  return (await statIfExists(join(path, 'shallow'))) !== null
}

/** Checks the folders in which git also looks for objects. It goes on without those that it cannot open. */
async function checkAlternates(objects: string): Promise<void> {
  // A pipe, which would keep a thread, is empty.
  const flag = constants.O_RDONLY | constants.O_NONBLOCK
  const list = readFile(join(objects, 'info', 'alternates'), { encoding: 'utf8', flag })
  // Without it, git knows none.
  const lines = (await list.catch(nullOnSystemError))?.split('\n') ?? []
  // Quoted as in C are only the names that begin with a quote.
  const folders = lines.filter((line) => line !== '' && !/^["#]/.test(line))
  await Promise.all(folders.map((folder) => access(resolve(objects, folder), R_OK | X_OK)))
}

async function checkFiles(objects: string): Promise<void> {
  const pack = join(objects, 'pack')
  const needed: [path: string, mode: number][] = []
  for (const name of await readdir(objects))
    if (FAN_OUT.test(name)) needed.push([join(objects, name), R_OK | X_OK])
  for (const name of await namesIn(pack).catch(emptyWhenMissing))
    if (PACK_FILE.test(name)) needed.push([join(pack, name), R_OK])
  // Files that are missing by now were removed by a repack: git finds their content elsewhere.
  await Promise.all(needed.map(([path, mode]) => access(path, mode).catch(emptyWhenMissing)))
}

/**
 * Returns the names in a folder of a repository.
 *
 * @throws RepositoryUnavailable if one is a pipe, from which git would read until its timeout; the
 * system's error
 */
export async function namesIn(folder: string, recursive = false): Promise<string[]> {
  const names: string[] = []
  for (const entry of await readdir(folder, { withFileTypes: true, recursive })) {
    if (entry.isFIFO()) throw new RepositoryUnavailable(`${join(entry.parentPath, entry.name)} is a pipe`)
    names.push(entry.name)
  }
  return names
}

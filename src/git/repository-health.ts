import { constants } from 'node:fs'
import { access, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { emptyWhenMissing, isMissing } from '../util/missing.ts'

/** The files of a repository cannot be opened, so nothing can be said about what it holds. */
export class RepositoryUnavailable extends Error {
  override readonly name = 'RepositoryUnavailable'
}

const { R_OK, X_OK } = constants
/** Names of the folders of loose objects. */
export const FAN_OUT = /^[0-9a-f]{2}$/
const PACK_FILE = /^(?:pack-[0-9a-f]+\.(?:idx|pack)|multi-pack-index)$/

/**
 * Makes sure that a repository is there and that its files can be opened. git says `missing` alike for an object
 * that is not there and for one in a file that it may not read or in a folder that is gone, so only this check
 * makes a "no" of it a "no".
 *
 * Looked at are `HEAD`, `objects`, `objects/pack`, the folders of loose objects and the pack files; not each loose
 * object, since there may be thousands of them, nor the folders of alternates, which git itself treats as optional.
 *
 * @param path absolute path of the git directory
 * @param known what an earlier call returned: the files below `objects` are then looked at again only if it changed
 * @returns a value that is another one after a pack or a folder was added or removed
 * @throws RepositoryUnavailable with the system's reason
 */
export async function checkRepositoryFiles(path: string, known?: string): Promise<string> {
  const objects = join(path, 'objects')
  try {
    await access(join(path, 'HEAD'), R_OK)
    const { mtimeMs, ino } = await stat(objects)
    const state = `${ino}:${mtimeMs} ${await packState(path)}`
    await access(objects, R_OK | X_OK)
    if (state !== known) await checkFiles(objects)
    return state
  } catch (error) {
    throw unavailable(path, error)
  }
}

/**
 * The state of the repository's packs in one `stat`: another value after a pack was added or removed. Empty when there
 * is no folder for packs, which git allows.
 *
 * @throws the system's error for any other reason
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

async function checkFiles(objects: string): Promise<void> {
  const pack = join(objects, 'pack')
  const folders = (await readdir(objects)).filter((name) => FAN_OUT.test(name))
  const packs = (await readdir(pack).catch(emptyWhenMissing)).filter((name) => PACK_FILE.test(name))
  // What is gone by now was removed by a repack: git finds its content elsewhere.
  await Promise.all([
    ...folders.map((name) => access(join(objects, name), R_OK | X_OK).catch(emptyWhenMissing)),
    ...packs.map((name) => access(join(pack, name), R_OK).catch(emptyWhenMissing)),
  ])
}

/** The error for a repository that a system call or git refused to open. */
export function unavailable(path: string, cause: unknown): RepositoryUnavailable {
  if (cause instanceof RepositoryUnavailable) return cause
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new RepositoryUnavailable(`the repository ${path} cannot be opened: ${reason}`, { cause })
}

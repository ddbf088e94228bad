import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type FilesState, filesState } from '../file-state.ts'
import { headPaths } from './head.ts'

/** Maximum number of folders below `refs`. Changes in further ones are noticed when a list expires. */
const MAX_FOLDERS = 2_000

/**
 * Returns the state of everything in which git looks for branches, tags and HEAD. git replaces the file of a ref by a rename,
 * which changes its folder, so that no file of a ref has to be read.
 *
 * @param path absolute path of the git directory
 */
export async function readRefsState(path: string): Promise<FilesState> {
  const folders: string[] = []
  for (const name of ['heads', 'tags']) await addFolders(join(path, 'refs', name), folders)
  return filesState([...(await headPaths(path)), ...folders])
}

async function addFolders(folder: string, folders: string[]): Promise<void> {
  if (folders.length >= MAX_FOLDERS) return
  folders.push(folder)
  // A folder that was removed is noticed by its parent. One that cannot be read is reported by git.
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  for (const entry of entries) if (entry.isDirectory()) await addFolders(join(folder, entry.name), folders)
}

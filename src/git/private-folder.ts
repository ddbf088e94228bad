import { rmSync } from 'node:fs'
import { lstat, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

let privateFolder: Promise<string> | undefined

/** Returns a temporary folder that no other account can enter. It is removed when the process ends. */
export async function openPrivateFolder(): Promise<string> {
  const known = privateFolder
  const folder = await known?.catch(() => undefined)
  if (folder !== undefined && (await isOwnFolder(folder))) return folder
  // Another call may have created a folder meanwhile.
  if (privateFolder === known || privateFolder === undefined) privateFolder = createFolder()
  return privateFolder
}

/** Returns false if the folder was removed from /tmp; then another account may have taken its name. */
async function isOwnFolder(folder: string): Promise<boolean> {
  const stats = await lstat(folder).catch(() => null)
  return stats?.isDirectory() === true && stats.uid === process.geteuid?.()
}

async function createFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'commit-status-git-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

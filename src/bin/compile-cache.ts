import { lstatSync, mkdirSync, readdirSync, realpathSync, type Stats } from 'node:fs'
import module from 'node:module'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'

const ROOT = 0
const WRITABLE_BY_OTHERS = 0o022
/** In such a folder, an account renames and removes only its own files. */
const STICKY = 0o1000

/**
 * Lets Node.js keep what it compiles in the home of this account, so that the next start takes half
 * as long. Does nothing where `NODE_COMPILE_CACHE` names another folder, or where there is no folder
 * that this account alone can write.
 */
export function enableCompileCache(): void {
  const self = process.geteuid?.()
  if (self === undefined || module.getCompileCacheDir() !== undefined) return
  try {
    const folder = createCacheFolder(homedir(), self)
    if (folder) module.enableCompileCache(folder)
  } catch {
    // Without a home, or without the right to write there. The program starts all the same.
  }
}

/**
 * Returns the folder of what is compiled, which it creates if it is missing. Node.js runs what it
 * finds there. So an account that could write the folder, or put another one in its place, could
 * act as this account: then it returns null.
 *
 * @param self id of this account
 * @throws Error if the home is missing or cannot be written
 */
export function createCacheFolder(home: string, self: number): string | null {
  const isOwn = ({ uid, mode }: Stats) => uid === self && (mode & WRITABLE_BY_OTHERS) === 0
  // Asked before anything is created: `sudo` may leave root the home of somebody else.
  if (!isOwn(lstatSync(realpathSync(home)))) return null
  const path = join(home, '.cache/commit-status-server')
  mkdirSync(path, { recursive: true, mode: 0o700 })
  const folder = realpathSync(path)
  const contents = readdirSync(folder).map((name) => join(folder, name))
  if (![folder, ...contents].every((file) => isOwn(lstatSync(file)))) return null
  return foldersAbove(folder).every((above) => isSafe(lstatSync(above), self)) ? folder : null
}

/** Returns whether only this account and root can rename what is theirs in a folder. */
function isSafe({ uid, mode }: Stats, self: number): boolean {
  return [self, ROOT].includes(uid) && ((mode & WRITABLE_BY_OTHERS) === 0 || (mode & STICKY) !== 0)
}

function foldersAbove(path: string): string[] {
  const above = dirname(path)
  return above === path ? [] : [above, ...foldersAbove(above)]
}

import { lstat, readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'

/** Files and folders that other accounts on this machine can open. */
export interface Exposed {
  /** Some of the paths. */
  paths: string[]
  /** The shell command that removes the access. The owner of the files must run it. */
  command: string
}

/** Maximum number of entries of a folder that are checked. */
const ENTRIES = 1_000
const PATHS_NAMED = 10
const ANY_ACCESS = 0o077
const ANY_PASSAGE = 0o011

/**
 * Finds files that other accounts can open: the data directory, its entries (databases with password hashes, backups), and
 * the repositories that the server created. Does not descend further, nor into folders that other accounts cannot enter.
 *
 * @returns null if there are none, or if the data directory does not exist
 */
export async function findExposed(dataDir: string): Promise<Exposed | null> {
  const folder = await realpath(dataDir).catch(() => dataDir)
  const repositories = await realpath(join(folder, 'repositories')).catch(() => join(folder, 'repositories'))
  const roots = repositories.startsWith(`${folder}/`) ? [folder] : [folder, repositories]
  const paths: string[] = []
  const open: string[] = []
  for (const root of roots) {
    const found = await exposedBelow(root, repositories)
    paths.push(...found)
    if (found.length > 0) open.push(root)
  }
  if (open.length === 0) return null
  return { paths: paths.slice(0, PATHS_NAMED), command: `chmod -R go-rwx -- ${open.map(quote).join(' ')}` }
}

/** Returns exposed paths in `folder`, and in `repositories` if that is one of its entries. */
async function exposedBelow(folder: string, repositories: string): Promise<string[]> {
  const mode = await modeOf(folder)
  const exposed = mode & ANY_ACCESS ? [folder] : []
  if ((mode & ANY_PASSAGE) === 0) return exposed
  const names = await readdir(folder).catch(() => [])
  for (const name of names.slice(0, ENTRIES)) {
    const path = join(folder, name)
    if (path === repositories) exposed.push(...(await exposedBelow(path, repositories)))
    else if ((await modeOf(path)) & ANY_ACCESS) exposed.push(path)
  }
  return exposed
}

/** Returns the mode of a file; 0 for a symbolic link, whose mode has no effect, or if it cannot be read. */
async function modeOf(path: string): Promise<number> {
  const stats = await lstat(path).catch(() => null)
  return stats === null || stats.isSymbolicLink() ? 0 : stats.mode
}

function quote(path: string): string {
  return `'${path.replaceAll("'", `'\\''`)}'`
}

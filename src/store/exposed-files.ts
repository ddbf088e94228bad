import { lstat, readdir, realpath } from 'node:fs/promises'
import { join } from 'node:path'

/** What other accounts of this machine can open. */
export interface Exposed {
  /** Some of it. */
  paths: string[]
  /** What mends it: for a shell, by the account that owns the files. */
  command: string
}

/** Entries of a folder that are looked at. */
const ENTRIES = 1_000
const PATHS_NAMED = 10
const ANY_ACCESS = 0o077
const ANY_PASSAGE = 0o011

/**
 * Finds what other accounts can open of the data directory: itself, what lies in it (databases with password hashes,
 * backups), and the repositories that the server created. Whole trees are not walked, and what lies behind a folder that
 * nobody else can pass is out of reach.
 *
 * @returns null when there is nothing, or no such folder
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

/** @param repositories the folder whose entries are looked at too, where it lies in `folder` */
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

/** 0: it is a link, whose mode means nothing, or cannot be looked at, or is gone by now. */
async function modeOf(path: string): Promise<number> {
  const stats = await lstat(path).catch(() => null)
  return stats === null || stats.isSymbolicLink() ? 0 : stats.mode
}

function quote(path: string): string {
  return `'${path.replaceAll("'", `'\\''`)}'`
}

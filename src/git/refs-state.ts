import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { emptyWhenMissing } from '../util/missing.ts'
import { fileState } from './file-state.ts'
import { readHead } from './head.ts'

/** The files and folders that change with the refs of a repository, and their state. */
export interface RefsState {
  readonly paths: readonly string[]
  readonly state: string
  /** False if something changed shortly before: the next change may get the same timestamp. */
  readonly settled: boolean
}

/** Milliseconds. Longer than the resolution of timestamps on any file system. */
const TIMESTAMP_RESOLUTION = 2_000
/** Maximum number of folders below `refs`. Changes in further ones are noticed when a list expires. */
const MAX_FOLDERS = 2_000

/**
 * Returns the state of everything in which git looks for branches, tags and HEAD. git replaces the file of a ref by a rename,
 * which changes its folder, so that no file of a ref has to be looked at.
 *
 * @param path absolute path of the git directory
 */
export async function readRefsState(path: string): Promise<RefsState> {
  const { files } = await readHead(path)
  const folders: string[] = []
  for (const name of ['heads', 'tags']) await addFolders(join(path, 'refs', name), folders)
  return stateOf([...files, ...folders])
}

/** Returns whether no ref has changed since the state was read. */
export async function isCurrent(known: RefsState): Promise<boolean> {
  return known.settled && (await stateOf(known.paths)).state === known.state
}

async function addFolders(folder: string, folders: string[]): Promise<void> {
  if (folders.length >= MAX_FOLDERS) return
  folders.push(folder)
  // A folder that was removed is noticed by its parent. One that cannot be read is reported by git.
  const entries = await readdir(folder, { withFileTypes: true })
    .catch(emptyWhenMissing)
    .catch(() => [])
  for (const entry of entries) if (entry.isDirectory()) await addFolders(join(folder, entry.name), folders)
}

async function stateOf(paths: readonly string[]): Promise<RefsState> {
  const settledBefore = BigInt(Date.now() - TIMESTAMP_RESOLUTION) * 1_000_000n
  const none = { stamp: '', changedAt: 0n }
  const states = await Promise.all(paths.map((path) => fileState(path).catch(() => none)))
  return {
    paths,
    state: states.map(({ stamp }) => stamp).join(','),
    settled: states.every(({ changedAt }) => changedAt < settledBefore),
  }
}

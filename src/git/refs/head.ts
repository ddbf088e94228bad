import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { BRANCHES } from '../../domain/ref-names.ts'
import { nullOnSystemError } from '../../util/expected-errors.ts'
import { GitFailed } from '../errors.ts'
import { type Disk, type FilesState, filesState } from '../file-state.ts'
import type { OpenedRepository } from '../opened-repository.ts'
import { decodeLatin1, readGit } from '../run-git.ts'
import type { RunLimits } from './list-refs.ts'
import { followSymbolic, readTarget } from './loose-refs.ts'
import { readRefFiles } from './ref-ids.ts'

/** What the file `HEAD` of a repository with a reftable names. HEAD itself is in the table. */
const IN_REFTABLE = 'refs/heads/.invalid'
/** Exit code of `git symbolic-ref --quiet` for a ref that is none. */
const NOT_SYMBOLIC = 1
/**
 * Maximum number of folders below `refs`. Changes in further ones are noticed when a list expires.
 */
const MAX_FOLDERS = 2_000

/**
 * Returns the state of all files that determine the commit of `HEAD`. Reading it is much cheaper
 * than a git process, which takes milliseconds to start.
 */
export async function readHeadState(path: string, disk: Disk): Promise<FilesState> {
  const { state, isStable } = await readChainState(path, 'HEAD', disk)
  // git replaces each of these files by a rename, so no change depends on timestamps.
  return { ...state, settled: isStable }
}

/**
 * Returns the state of all files that determine where a ref is.
 *
 * @param ref its full name, decoded as Latin-1
 */
export async function readRefState(path: string, ref: string, disk: Disk): Promise<FilesState> {
  const { state, isStable } = await readChainState(path, ref, disk)
  return { ...state, settled: state.settled && isStable }
}

/** Returns the state of a ref's files, and whether they were the same ones before and after. */
async function readChainState(path: string, ref: string, disk: Disk) {
  const now = Date.now()
  const paths = await refPaths(path, ref)
  const state = await filesState(paths, disk, now)
  const isStable = (await refPaths(path, ref)).join() === paths.join()
  // A name that is not UTF-8 is that of another file.
  return { state, isStable: isStable && !paths.some((name) => name.includes('\ufffd')) }
}

/**
 * Returns the state of everything in which git looks for branches, tags and HEAD. git replaces the
 * file of a ref by a rename, which changes its folder, so that no file of a ref has to be read.
 */
export async function readRefsState(path: string, disk: Disk = 'shared'): Promise<FilesState> {
  const now = Date.now()
  const folders: string[] = []
  for (const name of ['heads', 'tags']) await addFolders(join(path, 'refs', name), folders)
  return filesState([...(await refPaths(path, 'HEAD')), ...folders], disk, now)
}

async function addFolders(folder: string, folders: string[]): Promise<void> {
  if (folders.length >= MAX_FOLDERS) return
  folders.push(folder)
  // A folder that was removed is noticed by its parent. One that cannot be read is reported by git.
  const entries = await readdir(folder, { withFileTypes: true }).catch(nullOnSystemError)
  for (const entry of entries ?? [])
    if (entry.isDirectory()) await addFolders(join(folder, entry.name), folders)
}

/**
 * Returns the name of the branch to which `HEAD` leads, by files alone; null if it leads to none, or if
 * only git can tell.
 */
export async function readDefaultBranch(path: string): Promise<string | null> {
  return branchOfRef((await chainOf(path, 'HEAD')).at(-1))
}

/** Returns the name of a branch, without `refs/heads/`; null for any other ref, or none. */
export function branchOfRef(ref: string | undefined): string | null {
  return ref?.startsWith(BRANCHES) && ref !== IN_REFTABLE ? decodeLatin1(ref.slice(BRANCHES.length)) : null
}

/**
 * Returns the ref that `HEAD` names, and those to which it leads if that is a symbolic ref too; an
 * empty list if HEAD is no symbolic ref. The last one need not exist. Names are decoded as Latin-1.
 *
 * @throws GitFailed; the signal's reason
 */
export async function readHeadRefs(repository: OpenedRepository, limits: RunLimits = {}): Promise<string[]> {
  const [, ...refs] = await chainOf(repository.path, 'HEAD')
  // Also asks about what only git understands.
  if (refs.length > 0 && refs[0] !== IN_REFTABLE) return refs
  try {
    // Not trimmed: a byte of a name may be white space in another encoding.
    const end = await readGit(repository, ['symbolic-ref', '--quiet', 'HEAD'], limits)
    return [end.replace(/\n$/, '')]
  } catch (error) {
    if (error instanceof GitFailed && error.code === NOT_SYMBOLIC) return []
    throw error
  }
}

/**
 * Returns the commit that `HEAD` leads to, by files alone; null if there is none, or if only git
 * can tell.
 */
export async function readHeadId(path: string): Promise<string | null> {
  const ids = await readRefFiles(path, new Set(['HEAD']), undefined).catch(nullOnSystemError)
  return ids?.get('HEAD') ?? null
}

/** Returns all files in which git looks for a ref, and for those to which it leads. */
async function refPaths(path: string, ref: string): Promise<string[]> {
  const files = ['packed-refs', 'reftable/tables.list', ...(await chainOf(path, ref))]
  return files.map((name) => join(path, decodeLatin1(name)))
}

/** Returns a ref and those to which it leads, decoded as Latin-1. */
function chainOf(path: string, ref: string): Promise<string[]> {
  return followSymbolic(ref, (name) => readTarget(path, name))
}

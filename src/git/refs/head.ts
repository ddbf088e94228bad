import { constants } from 'node:fs'
import { open, readdir, readlink } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { BRANCHES } from '../../domain/branch-rules.ts'
import { nullOnSystemError } from '../../errors.ts'
import { walk } from '../../util/walk.ts'
import { type FilesState, filesState } from '../file-state.ts'
import { decodeLatin1 } from '../run-git.ts'

/** git follows at most five symbolic refs. */
const MAX_DEPTH = 5
/**
 * Maximum number of folders below `refs`. Changes in further ones are noticed when a list expires.
 */
const MAX_FOLDERS = 2_000
/** Maximum number of bytes read of a symbolic ref. */
const REF_LENGTH = 8 * 1024

/**
 * Returns the state of all files that determine the commit of `HEAD`. Reading it is much cheaper
 * than a git process, which takes milliseconds to start.
 */
export async function readHeadState(path: string): Promise<FilesState> {
  const paths = await headPaths(path)
  const state = await filesState(paths)
  // git replaces each of these files by a rename, so no change depends on timestamps. But `HEAD`
  // may name another ref by now.
  const settled = (await headPaths(path)).join() === paths.join()
  return { ...state, settled }
}

/**
 * Returns the state of everything in which git looks for branches, tags and HEAD. git replaces the
 * file of a ref by a rename, which changes its folder, so that no file of a ref has to be read.
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
  const entries = await readdir(folder, { withFileTypes: true }).catch(nullOnSystemError)
  for (const entry of entries ?? [])
    if (entry.isDirectory()) await addFolders(join(folder, entry.name), folders)
}

/** Returns the name of the branch that `HEAD` names; null if it names none. */
export async function readDefaultBranch(path: string): Promise<string | null> {
  const target = await symbolicTarget(join(path, 'HEAD'))
  return target?.startsWith(BRANCHES) ? decodeLatin1(target.slice(BRANCHES.length)) : null
}

/**
 * Returns the commit that `HEAD` leads to, by files alone; null if there is none, or if only git
 * can tell.
 */
export async function readHeadId(path: string): Promise<string | null> {
  const files = await headPaths(path)
  const [packed = '', file = ''] = [files[0], files.at(-1)]
  const loose = await readStart(file).catch(nullOnSystemError)
  const name = Buffer.from(relative(path, file)).toString('latin1')
  const lines = (await readStart(packed).catch(nullOnSystemError))?.split('\n').slice(0, -1) ?? []
  const line = loose ?? lines.find((line) => line.endsWith(` ${name}`))
  return /^([0-9a-f]{40,64})(?:[ \n]|$)/.exec(line ?? '')?.[1] ?? null
}

/**
 * Resolves `HEAD` to a ref and returns all files in which git looks for that ref, which is the last
 * of them.
 */
export async function headPaths(path: string): Promise<string[]> {
  const files = [join(path, 'packed-refs'), join(path, 'reftable', 'tables.list')]
  let name: string | undefined = 'HEAD'
  for (let depth = 0; name !== undefined && depth < MAX_DEPTH; depth++) {
    const file = join(path, name)
    files.push(file)
    const target = await symbolicTarget(file)
    // git rejects such a name too. It could lead out of the repository.
    name = target === undefined || target.includes('..') ? undefined : decodeLatin1(target)
  }
  return files
}

/**
 * Yields the files below `refs` that are symbolic refs: name, and the ref that it names, which need
 * not exist. git lists none that leads nowhere, and of a chain only the end. A reftable has no such
 * files. Names are decoded as Latin-1.
 *
 * @param isKnown returns whether a file need not be read
 */
export async function* symbolicFiles(
  path: string,
  isKnown: (name: string) => boolean = () => false,
): AsyncGenerator<[name: string, target: string]> {
  for await (const { path: file, isFolder } of walk(join(path, 'refs'))) {
    const name = Buffer.from(relative(path, file)).toString('latin1')
    if (isFolder || name.endsWith('.lock') || isKnown(name)) continue
    const target = await symbolicTarget(file)
    if (target !== undefined) yield [name, target]
  }
}

/** Returns the ref that a file or a symbolic link names, decoded as Latin-1; undefined if none. */
export async function symbolicTarget(file: string): Promise<string | undefined> {
  const link = await readlink(file, 'latin1').catch(nullOnSystemError)
  if (link?.startsWith('refs/')) return link
  const text = await readStart(file).catch(nullOnSystemError)
  return /^ref:[ \t]*(refs\/[!-~\x80-\xff]+)[ \t\r\n]*$/.exec(text ?? '')?.[1]
}

/** Returns the beginning of a file. Does not block on a pipe. @throws the system's error */
async function readStart(file: string): Promise<string> {
  await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
  const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(REF_LENGTH) })
  return buffer.toString('latin1', 0, bytesRead)
}

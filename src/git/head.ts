import { constants } from 'node:fs'
import { open, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { fileState } from './file-state.ts'

/** The files that determine the commit of `HEAD`, and their state. */
export interface Head {
  readonly files: readonly string[]
  readonly state: string
}

/** git follows at most five symbolic refs. */
const MAX_DEPTH = 5
/** Maximum number of bytes read of a symbolic ref. */
const REF_LENGTH = 1024

/**
 * Resolves `HEAD` to a ref and returns the state of all files in which git looks for that ref. This is much cheaper than a
 * git process, which takes milliseconds to start.
 *
 * @param path absolute path of the git directory
 */
export async function readHead(path: string): Promise<Head> {
  const files = [join(path, 'packed-refs'), join(path, 'reftable', 'tables.list')]
  let name: string | undefined = 'HEAD'
  for (let depth = 0; name !== undefined && depth < MAX_DEPTH; depth++) {
    const file = join(path, name)
    files.push(file)
    const target = await symbolicTarget(file)
    // git rejects such a name too. It could lead out of the repository.
    name = target?.includes('..') ? undefined : target
  }
  return { files, state: await stateOf(files) }
}

/** Returns whether the files have not changed since, so that `HEAD` is still the same commit. */
export async function isUnchanged({ files, state }: Head): Promise<boolean> {
  return (await stateOf(files)) === state
}

/** Returns the combined state of the files. git replaces a ref's file by a rename, which changes it. */
async function stateOf(files: readonly string[]): Promise<string> {
  const states = await Promise.all(files.map((file) => fileState(file).catch(() => ({ stamp: '' }))))
  return states.map(({ stamp }) => stamp).join(',')
}

/** Returns the ref that a symbolic ref names; undefined for other files. Early versions of git used symbolic links. */
async function symbolicTarget(file: string): Promise<string | undefined> {
  const link = await readlink(file).catch(() => '')
  if (link.startsWith('refs/')) return link
  return /^ref:[ \t]*(refs\/\S+)\s*$/.exec(await readStart(file))?.[1]
}

/** Returns the beginning of a file, or an empty text if it cannot be read. Does not block on a pipe. */
async function readStart(file: string): Promise<string> {
  try {
    await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
    const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(REF_LENGTH) })
    return buffer.toString('latin1', 0, bytesRead)
  } catch {
    return ''
  }
}

import { constants } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** The files that decide to which commit `HEAD` leads, and the state in which they were. */
export interface Head {
  readonly files: readonly string[]
  readonly state: string
}

/** Symbolic refs that lead to one another: git follows five. */
const MAX_DEPTH = 5
/** Bytes of a file that names a ref. */
const REF_LENGTH = 1024

/**
 * Reads to which ref `HEAD` leads, and the state of all files in which git could look for that ref: cheap beside a git
 * process, which costs milliseconds to start.
 *
 * @param path absolute path of the git directory
 */
export async function readHead(path: string): Promise<Head> {
  const files = [join(path, 'packed-refs'), join(path, 'reftable', 'tables.list')]
  let name: string | undefined = 'HEAD'
  for (let depth = 0; name !== undefined && depth < MAX_DEPTH; depth++) {
    const file = join(path, name)
    files.push(file)
    const [, target] = /^ref:[ \t]*(refs\/\S+)\s*$/.exec(await readStart(file)) ?? []
    // git takes no such name either, and it could lead out of the repository.
    name = target?.includes('..') ? undefined : target
  }
  return { files, state: await stateOf(files) }
}

/** Whether nothing has happened to the files since: `HEAD` leads to the same commit. */
export async function isUnchanged({ files, state }: Head): Promise<boolean> {
  return (await stateOf(files)) === state
}

/** git replaces a file of refs by renaming another one over it, so its inode and change time tell. */
async function stateOf(files: readonly string[]): Promise<string> {
  const states = await Promise.all(
    files.map(async (file) => {
      try {
        const { ino, size, ctimeNs } = await stat(file, { bigint: true })
        return `${ino}:${size}:${ctimeNs}`
      } catch {
        return ''
      }
    }),
  )
  return states.join(' ')
}

/** The beginning of a file; empty when it cannot be read. Never waits, whatever kind of file it is. */
async function readStart(file: string): Promise<string> {
  try {
    await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
    const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(REF_LENGTH) })
    return buffer.toString('latin1', 0, bytesRead)
  } catch {
    return ''
  }
}

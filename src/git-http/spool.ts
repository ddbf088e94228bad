import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { access, chmod, type FileHandle, open, readdir, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { createFolder } from '../util/durable.ts'

const MAX_BYTES = 8 * 1024 ** 3
/** Part of the free disk that is used by default. */
const SHARE = 1 / 4
/** Bytes that are written to find out whether the disk is full. */
const PROBE = 256 * 1024
/** A push of one commit creates about ten files and folders. */
const MIN_INODES = 100

/**
 * A folder of files without names, which are gone when the process and the git that reads them end,
 * however they end.
 */
export class Spool {
  /** Bytes that pushes may hold, and answers again as many. */
  readonly bytes: number
  readonly folder: string

  constructor(folder: string, bytes: number) {
    this.folder = folder
    this.bytes = bytes
  }

  /** Returns the free bytes of its disk. @throws the system's error */
  async free(): Promise<number> {
    const { bavail, bsize } = await statfs(this.folder)
    return bavail * bsize
  }

  async createFile(): Promise<FileHandle> {
    const path = join(this.folder, randomBytes(12).toString('hex'))
    const file = await open(path, 'wx+', 0o600)
    try {
      // Another process that is starting may have removed it.
      await rm(path, { force: true })
      return file
    } catch (error) {
      await file.close()
      throw error
    }
  }

  /**
   * Makes sure that files can be created and written, and as many as a push creates.
   *
   * @throws the system's error
   */
  async check(): Promise<void> {
    // Some file systems have no fixed number of inodes, and report none.
    const { files, ffree } = await statfs(this.folder)
    if (files > 0 && ffree < MIN_INODES) throw new Error(`${this.folder}: only ${ffree} inodes are left`)
    const file = await this.createFile()
    await file.write(Buffer.alloc(PROBE)).finally(() => file.close())
  }
}

/**
 * Opens the folder for received pushes and unread answers, and removes what a power cut has left in
 * it. It is on the disk of the repositories, because the folder for temporary files may be in
 * memory.
 *
 * @param bytes see `Spool.bytes`; 0 for the smaller of 8 GiB and a quarter of what is free
 */
export async function openSpool(dataDir: string, bytes: number): Promise<Spool> {
  const folder = join(dataDir, 'spool')
  await createFolder(folder, 0o700)
  await chmod(folder, 0o700)
  await access(folder, constants.W_OK | constants.X_OK)
  // Network file systems keep removed files that another process has open under hidden names.
  // The locks of `Presence` are hidden too.
  for (const name of await readdir(folder))
    if (!name.startsWith('.')) await rm(join(folder, name), { force: true })
  if (bytes > 0) return new Spool(folder, bytes)
  const { bavail, bsize } = await statfs(folder)
  return new Spool(folder, Math.min(MAX_BYTES, Math.floor(bavail * bsize * SHARE)))
}

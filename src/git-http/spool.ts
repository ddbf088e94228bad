import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { access, chmod, type FileHandle, open, readdir, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { createFolder } from '../util/durable.ts'
import type { SharedBudget } from '../util/shared-budget.ts'

const MAX_BYTES = 8 * 1024 ** 3
/** Part of the free disk that is used by default. */
const SHARE = 1 / 4
/** Bytes after which another file is begun, so that what has been read leaves the disk. */
const FILE_BYTES = 16 * 1024 ** 2
/** Bytes that are read at once. */
const CHUNK = 256 * 1024
/** Bytes that a chunk in memory takes in addition to its content. It matters if a client sends byte by byte. */
const CHUNK_OVERHEAD = 512

/** A push of one commit creates about ten files and folders. */
const MIN_INODES = 100

/** There is no room for more bytes: a budget is used up, or the disk is full. */
export class SpoolFull extends Error {
  override readonly name = 'SpoolFull'
}

/** A folder of files without names, which are gone when the process ends, however it ends. */
export class Spool {
  /** Bytes that pushes may hold, and answers again as many. */
  readonly bytes: number
  readonly #folder: string

  constructor(folder: string, bytes: number) {
    this.#folder = folder
    this.bytes = bytes
  }

  /** Returns the free bytes of its disk. @throws the system's error */
  async free(): Promise<number> {
    const { bavail, bsize } = await statfs(this.#folder)
    return bavail * bsize
  }

  async createFile(): Promise<FileHandle> {
    const path = join(this.#folder, randomBytes(12).toString('hex'))
    const file = await open(path, 'wx+', 0o600)
    // Another process that is starting may have removed it.
    await rm(path, { force: true })
    return file
  }

  /** Makes sure that files can be created and written, and as many as a push creates. @throws the system's error */
  async check(): Promise<void> {
    // Some file systems have no fixed number of inodes, and report none.
    const { files, ffree } = await statfs(this.#folder)
    if (files > 0 && ffree < MIN_INODES) throw new Error(`${this.#folder}: only ${ffree} inodes are left`)
    const file = await this.createFile()
    await file.write(Buffer.alloc(CHUNK)).finally(() => file.close())
  }
}

/**
 * Opens the folder for received pushes and unread answers, and removes what a power cut has left in it. It is on the disk of
 * the repositories, because the folder for temporary files may be in memory.
 *
 * @param bytes see `Spool.bytes`; 0 for the smaller of 8 GiB and a quarter of what is free
 * @throws the system's error
 */
export async function openSpool(dataDir: string, bytes: number): Promise<Spool> {
  const folder = join(dataDir, 'spool')
  await createFolder(folder, 0o700)
  await chmod(folder, 0o700)
  await access(folder, constants.W_OK | constants.X_OK)
  // Network file systems keep removed files that another process has open under hidden names.
  const left = (await readdir(folder)).filter((name) => !name.startsWith('.'))
  for (const name of left) await rm(join(folder, name), { force: true })
  if (bytes > 0) return new Spool(folder, bytes)
  const { bavail, bsize } = await statfs(folder)
  return new Spool(folder, Math.min(MAX_BYTES, Math.floor(bavail * bsize * SHARE)))
}

/** Where bytes may wait. */
export interface Room {
  /** Whose shares are used: a user or an address. */
  client: string
  /** The first bytes are kept in memory, at most `bytes` of them; null: none. */
  memory: { bytes: number; budget: SharedBudget } | null
  /** Others go to files; null: none. */
  disk: { spool: Spool; budget: SharedBudget } | null
}

interface Part {
  file: FileHandle
  written: number
  read: number
}

/**
 * A queue of bytes, in memory and in files. One append and one take may run at a time, also concurrently.
 *
 * ```
 *   append ──▶ files, newest last ──▶ … ──▶ oldest ──┐
 *     └─────── while there are none ──▶ memory ──────┴──▶ take
 * ```
 */
export class SpooledBytes {
  readonly #room: Room
  readonly #memory: Buffer[] = []
  readonly #parts: Part[] = []
  #inMemory = 0
  #onDisk = 0
  #unread = 0
  #writing = false
  #closed = false

  constructor(room: Room) {
    this.#room = room
  }

  get isEmpty(): boolean {
    return this.#unread === 0
  }

  /** Adds all the chunks. @throws SpoolFull if there is no room for them; then none is added */
  async append(chunks: readonly Buffer[]): Promise<void> {
    const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
    if (this.#parts.length === 0 && this.#takeMemory(chunks)) {
      this.#memory.push(...chunks)
    } else {
      this.#writing = true
      await this.#write(chunks, length).finally(() => {
        this.#writing = false
      })
    }
    this.#unread += length
  }

  /** Returns the oldest bytes. There must be some. @throws the system's error */
  async take(): Promise<Buffer> {
    const kept = this.#memory.shift()
    if (kept) this.#releaseMemory(memoryOf(kept))
    const chunk = kept ?? (await this.#read())
    this.#unread -= chunk.length
    return chunk
  }

  /** Returns bytes from an offset in the first file on, without taking them; none at its end. @throws the system's error */
  async peek(offset: number): Promise<Buffer> {
    const [part] = this.#parts
    const length = Math.min(CHUNK, (part?.written ?? 0) - offset)
    if (part === undefined || length <= 0) return Buffer.alloc(0)
    const { buffer, bytesRead } = await part.file.read(Buffer.alloc(length), 0, length, offset)
    return buffer.subarray(0, bytesRead)
  }

  /** Forgets all bytes. */
  close(): void {
    this.#memory.length = 0
    this.#releaseMemory(this.#inMemory)
    this.#releaseDisk(this.#onDisk)
    this.#closed = true
    for (const { file } of this.#parts.splice(0)) file.close().catch(() => {})
  }

  async #read(): Promise<Buffer> {
    await this.#removeRead()
    const [part] = this.#parts
    if (part === undefined) throw new Error('the spool has no more bytes')
    const length = Math.min(CHUNK, part.written - part.read)
    const { buffer, bytesRead } = await part.file.read(Buffer.allocUnsafeSlow(length), 0, length, part.read)
    if (bytesRead < length) throw new Error('a file of the spool is shorter than what was written to it')
    part.read += length
    await this.#removeRead()
    return buffer
  }

  async #write(chunks: readonly Buffer[], length: number): Promise<void> {
    const { disk, client } = this.#room
    if (disk === null || this.#closed || !disk.budget.take(client, length, this.#onDisk))
      throw new SpoolFull('no room is left')
    this.#onDisk += length
    try {
      const part = await this.#lastPart(disk.spool)
      const { bytesWritten } = await part.file.writev(chunks, part.written)
      if (bytesWritten < length) throw new Error('the disk is full')
      part.written += length
    } catch (error) {
      this.#releaseDisk(length)
      const reason = error instanceof Error ? error.message : String(error)
      throw new SpoolFull(`cannot write to the spool: ${reason}`, { cause: error })
    }
  }

  async #lastPart(spool: Spool): Promise<Part> {
    const last = this.#parts.at(-1)
    if (last && last.written < FILE_BYTES) return last
    const part = { file: await spool.createFile(), written: 0, read: 0 }
    if (!this.#closed) this.#parts.push(part)
    else await part.file.close()
    return part
  }

  /** Removes the oldest file if all of it was read and no more will be written to it. */
  async #removeRead(): Promise<void> {
    const [part] = this.#parts
    if (part === undefined || part.read < part.written) return
    if (this.#parts.length === 1 && this.#writing) return
    this.#parts.shift()
    await part.file.close().catch(() => {})
    this.#releaseDisk(part.written)
  }

  #takeMemory(chunks: readonly Buffer[]): boolean {
    const { memory, client } = this.#room
    const size = chunks.reduce((sum, chunk) => sum + memoryOf(chunk), 0)
    if (memory === null || this.#closed || this.#inMemory + size > memory.bytes) return false
    if (!memory.budget.take(client, size)) return false
    this.#inMemory += size
    return true
  }

  #releaseMemory(size: number): void {
    this.#room.memory?.budget.release(this.#room.client, size)
    this.#inMemory -= size
  }

  #releaseDisk(length: number): void {
    if (this.#closed) return
    this.#room.disk?.budget.release(this.#room.client, length)
    this.#onDisk -= length
  }
}

function memoryOf(chunk: Buffer): number {
  return chunk.length + CHUNK_OVERHEAD
}

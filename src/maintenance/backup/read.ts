import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { getSystemErrorMessage } from 'node:util'
import { createGunzip } from 'node:zlib'
import { Refusal } from '../../domain/refusal.ts'
import {
  type BackupEnd,
  type BackupHeader,
  type BackupRows,
  damagedBackup,
  readHeader,
  readPart,
} from './format.ts'

/** Receives the parts of a backup as they are read. */
export interface BackupReader {
  header?(header: BackupHeader): Promise<void>
  rows?(rows: BackupRows): Promise<void>
}

/**
 * Reads a backup and compares it with the checksum and counts in its last line. Until the promise
 * resolves, what the reader received may be damaged.
 *
 * @returns its last line
 * @throws Refusal, which names the file, if it cannot be read, is not a backup, damaged or
 * incomplete
 */
export async function readBackup(file: string, reader: BackupReader): Promise<BackupEnd> {
  const hash = createHash('sha256')
  const counts: Record<string, number> = {}
  let first = true
  let end: BackupEnd | undefined

  async function take(line: string): Promise<void> {
    if (end) throw damagedBackup()
    if (first) {
      await reader.header?.(readHeader(line))
      first = false
    } else {
      const part = readPart(line)
      if ('sha256' in part) {
        if (part.sha256 !== hash.digest('hex') || !isSameCounts(part.counts, counts)) throw damagedBackup()
        end = part
        return
      }
      counts[part.table] = (counts[part.table] ?? 0) + part.rows.length
      await reader.rows?.(part)
    }
    hash.update(`${line}\n`)
  }

  try {
    await pipeline(createReadStream(file), createGunzip(), async (chunks) => {
      for await (const line of splitLines(chunks)) await take(line)
    })
    if (!end) throw damagedBackup()
    return end
  } catch (error) {
    throw withFile(file, error)
  }
}

/**
 * Returns an error of the content or of the system as one that names the file; other errors as they
 * are.
 */
function withFile(file: string, error: unknown): unknown {
  if (error instanceof Refusal) return new Refusal(`${file}: ${error.message}`, { cause: error })
  if (!(error instanceof Error && 'code' in error)) return error
  if (String(error.code).startsWith('Z_')) return withFile(file, damagedBackup(error))
  if (!('syscall' in error && (error.syscall === 'open' || error.syscall === 'read'))) return error
  const reason = 'errno' in error ? getSystemErrorMessage(Number(error.errno)) : error.message
  return new Refusal(`${file} cannot be read: ${reason}`, { cause: error })
}

/** Yields lines that end with LF. Other line separators are valid within JSON strings. */
async function* splitLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let rest = ''
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest + decoder.decode() !== '') throw damagedBackup()
}

/** Compares counts of rows. A table without rows is missing in `counted`. */
function isSameCounts(expected: Record<string, number>, counted: Record<string, number>): boolean {
  const names = new Set([...Object.keys(expected), ...Object.keys(counted)])
  return [...names].every((name) => (expected[name] ?? 0) === (counted[name] ?? 0))
}

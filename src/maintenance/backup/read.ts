import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { RuleViolation } from '../../store/rule-violation.ts'
import { type BackupHeader, type BackupRows, damaged, readHeader, readPart } from './format.ts'

/** What is done with the parts of a backup as they are read. */
export interface BackupReader {
  header(header: BackupHeader): Promise<void>
  rows(rows: BackupRows): Promise<void>
}

/**
 * Reads a backup from its first line to its last.
 *
 * @returns its end, once everything that it says of the lines before has proved true: until then nothing that was read
 * can be relied on
 * @throws RuleViolation when it is no backup, is damaged or not complete; the system's error when it cannot be read
 */
export async function readBackup(file: string, reader: BackupReader): Promise<Record<string, number>> {
  const hash = createHash('sha256')
  const counts: Record<string, number> = {}
  let first = true
  let lastIds: Record<string, number> | undefined

  async function take(line: string): Promise<void> {
    if (lastIds) throw damaged()
    if (first) {
      await reader.header(readHeader(line))
      first = false
    } else {
      const part = readPart(line)
      if ('sha256' in part) {
        if (part.sha256 !== hash.digest('hex') || !isSame(part.counts, counts)) throw damaged()
        lastIds = part.last_ids
        return
      }
      counts[part.table] = (counts[part.table] ?? 0) + part.rows.length
      await reader.rows(part)
    }
    hash.update(`${line}\n`)
  }

  try {
    await pipeline(createReadStream(file), createGunzip(), async (chunks) => {
      for await (const line of linesOf(chunks)) await take(line)
    })
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    throw code.startsWith('Z_') ? damaged(error) : error
  }
  if (!lastIds) throw damaged()
  return lastIds
}

/** Lines that end with LF alone: other marks of a line's end may stand within JSON. */
async function* linesOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  let rest = ''
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest + decoder.decode() !== '') throw damaged()
}

/** A table without rows has no count while reading. */
function isSame(told: Record<string, number>, counted: Record<string, number>): boolean {
  const names = new Set([...Object.keys(told), ...Object.keys(counted)])
  return [...names].every((name) => (told[name] ?? 0) === (counted[name] ?? 0))
}

/** @throws RuleViolation when the schema of the backup is newer than this version's */
export function checkMigrations(header: BackupHeader, applied: ReadonlySet<string>): void {
  const unknown = header.migrations.find((name) => !applied.has(name))
  if (unknown)
    throw new RuleViolation(`this backup was made by a newer version: it has been through "${unknown}"`)
}

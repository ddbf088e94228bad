import { Refusal } from '../../domain/refusal.ts'

/**
 * The first line of a backup.
 *
 * A backup consists of JSON lines compressed with gzip, in the same format for both kinds of
 * database: a header, lines with rows of one table each, and a last line with the number of rows of
 * each table, the highest ids given out, and the SHA-256 of all lines before it. A file without the
 * last line is not a complete backup.
 */
export interface BackupHeader {
  format: typeof FORMAT
  version: typeof VERSION
  created_at: string
  /** The migrations that were applied to the database. */
  migrations: string[]
}

export interface BackupRows {
  table: string
  columns: string[]
  rows: (string | number | null)[][]
}

export interface BackupEnd {
  counts: Record<string, number>
  /** The highest id that each table with numbered rows ever gave out. */
  last_ids: Record<string, number>
  sha256: string
}

export const FORMAT = 'commit-status-backup'
export const VERSION = 1

/** Parses the first line. @throws Refusal unless this version can restore the backup */
export function readHeader(line: string): BackupHeader {
  const { format, version, created_at, migrations } = parseBackupLine<BackupHeader>(line)
  if (format !== FORMAT) throw new Refusal('it is not a backup of a commit status server')
  if (version !== VERSION || !migrations || !created_at)
    throw new Refusal(`the backup has the format version ${version}, but this server reads ${VERSION}`)
  return { format, version, created_at, migrations }
}

/**
 * Parses rows of a table, or the last line of the backup.
 *
 * @throws Refusal for anything else
 */
export function readPart(line: string): BackupRows | BackupEnd {
  const { table, columns, rows, counts, last_ids, sha256 } = parseBackupLine<BackupRows & BackupEnd>(line)
  if (table !== undefined && columns && rows) return { table, columns, rows }
  if (sha256 !== undefined && counts && last_ids) return { counts, last_ids, sha256 }
  throw damagedBackup()
}

/** Returns the error for a backup whose content is not what was written. */
export function damagedBackup(cause?: unknown): Refusal {
  return new Refusal('the backup is damaged or incomplete', { cause })
}

/**
 * Parses a line. Any field may be missing; the SHA-256 in the last line proves the types of those
 * that are there.
 */
function parseBackupLine<Line>(line: string): Partial<Line> {
  try {
    const value: unknown = JSON.parse(line)
    if (typeof value === 'object' && value !== null) return value as Partial<Line>
  } catch (error) {
    throw damagedBackup(error)
  }
  throw damagedBackup()
}

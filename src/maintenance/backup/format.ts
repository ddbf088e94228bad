import { RuleViolation } from '../../store/rule-violation.ts'

/**
 * A backup: JSON lines, compressed by gzip, the same whichever database it was taken from. The first line says what it
 * is, each line after it holds some rows of one table, and the last one how many there are of each, the numbers given
 * out so far, and the SHA-256 of all lines before it. Without the last line it is not a backup.
 */
export interface BackupHeader {
  format: typeof FORMAT
  version: typeof VERSION
  created_at: string
  /** Those that the schema has been through. */
  migrations: string[]
}

export interface BackupRows {
  table: string
  columns: string[]
  rows: (string | number | null)[][]
}

export interface BackupEnd {
  counts: Record<string, number>
  /** Highest id that a table with numbered rows ever gave out. */
  last_ids: Record<string, number>
  sha256: string
}

export const FORMAT = 'commit-status-backup'
export const VERSION = 1

/** @throws RuleViolation unless this version can restore what begins with `line` */
export function readHeader(line: string): BackupHeader {
  const header: Partial<BackupHeader> = parse(line)
  if (header.format !== FORMAT) throw new RuleViolation('this is not a backup of a commit status server')
  if (header.version !== VERSION || !header.migrations || !header.created_at)
    throw new RuleViolation('this backup was made by another version')
  return { format: FORMAT, version: VERSION, created_at: header.created_at, migrations: header.migrations }
}

/** Rows of a table, or the end of the backup. @throws RuleViolation for anything else */
export function readPart(line: string): BackupRows | BackupEnd {
  const part: Partial<BackupRows & BackupEnd> = parse(line)
  const { table, columns, rows, counts, last_ids, sha256 } = part
  if (table !== undefined && columns && rows) return { table, columns, rows }
  if (sha256 !== undefined && counts && last_ids) return { counts, last_ids, sha256 }
  throw damaged()
}

export function damaged(cause?: unknown): RuleViolation {
  return new RuleViolation('the backup is damaged or not complete', { cause })
}

function parse(line: string): object {
  try {
    return Object(JSON.parse(line))
  } catch (error) {
    throw damaged(error)
  }
}

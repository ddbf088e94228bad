import { createHash, hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { RefList } from '../../git/transfer.ts'
import { RuleViolation } from '../../store/rule-violation.ts'
import type { ObjectFormat } from '../../util/commit-id.ts'
import { syncPath, writeDurably } from '../../util/durable.ts'
import { damaged } from './format.ts'

/**
 * What a backup in a folder of backups contains besides its database. Objects of repositories are never removed, so that all
 * backups in a folder share them. The manifest is written last: without it, a backup is not complete.
 *
 *     000007-20261122T031500Z.database    the format of `format.ts`
 *     000007-20261122T031500Z.manifest    one line of JSON, and its SHA-256
 *     repositories/1.sha1.git             objects, and refs by which git knows them
 *     lock
 */
export interface Manifest {
  version: typeof VERSION
  /** Version of the server. */
  server: string
  created_at: string
  /** SHA-256 of the database, and its rows by table. */
  database: { sha256: string; rows: Record<string, number> }
  repositories: RepositoryCopy[]
}

export interface RepositoryCopy {
  id: number
  created_at: number
  /** OWNER/NAME */
  name: string
  object_format: ObjectFormat
  /** Where it was imported from; null if the server created it. */
  imported: string | null
  /** Why it could not be read. Then the content is that of an earlier backup. */
  problem?: string
  /** Missing if it has never been read. */
  content?: RepositoryContent
}

export interface RepositoryContent extends RefList {
  copied_at: string
  /** Commits with statuses that no ref reaches. */
  commits: string[]
  /** The file of git's settings, of a repository that the server created. */
  config: string | null
}

export const VERSION = 1
const FILE = /^(\d{6}-\d{8}T\d{6}Z)\.(database|manifest)(\.part)?$/

/** Returns the names of the complete backups in a folder, oldest first. @throws the system's error */
export async function listBackups(folder: string): Promise<string[]> {
  const files = (await readdir(folder)).map((name) => FILE.exec(name))
  return files.flatMap((found) => (found?.[1] && found[2] === 'manifest' && !found[3] ? found[1] : [])).sort()
}

/** Returns the name of the backup after `latest`. The number comes first, because a clock may be set back. */
export function nextName(latest = '0', now = new Date()): string {
  const time = now.toISOString().replace(/[-:]|\.\d+/g, '')
  return `${String(Number.parseInt(latest, 10) + 1).padStart(6, '0')}-${time}`
}

export function databaseOf(folder: string, name: string): string {
  return join(folder, `${name}.database`)
}

export function objectsOf(folder: string, { id, object_format }: RepositoryCopy): string {
  return join(folder, 'repositories', `${id}.${object_format}.git`)
}

/** Writes a manifest; then the backup is complete. All else must be on disk. */
export function writeManifest(folder: string, name: string, manifest: Manifest): Promise<void> {
  const json = JSON.stringify(manifest)
  return writeDurably(join(folder, `${name}.manifest`), `${json}\n${hash('sha256', json)}\n`)
}

/** @throws RuleViolation if it is damaged or of a newer version; the system's error */
export async function readManifest(folder: string, name: string): Promise<Manifest> {
  const file = join(folder, `${name}.manifest`)
  const [json = '', sha256] = (await readFile(file, 'utf8')).split('\n')
  if (sha256 !== hash('sha256', json)) throw new RuleViolation(`${file}: ${damaged().message}`)
  // The digest proves that `writeManifest` wrote it.
  const manifest = JSON.parse(json) as Manifest
  if (manifest.version === VERSION) return manifest
  throw new RuleViolation(
    `${file} has the format version ${manifest.version}, but this server reads ${VERSION}`,
  )
}

/** Removes what interrupted backups have left, and all backups except the newest `keep`. */
export async function removeBackups(folder: string, keep = Number.MAX_SAFE_INTEGER): Promise<void> {
  const kept = (await listBackups(folder)).slice(-keep)
  // A backup is not complete without its manifest, so that goes first.
  for (const name of (await readdir(folder)).sort().reverse()) {
    const [, backup, , draft] = FILE.exec(name) ?? []
    if (!backup || (kept.includes(backup) && !draft)) continue
    await rm(join(folder, name))
    await syncPath(folder)
  }
}

/** Returns the SHA-256 of a file. */
export async function digestFile(file: string): Promise<string> {
  const digest = createHash('sha256')
  await pipeline(createReadStream(file), digest)
  return digest.digest('hex')
}

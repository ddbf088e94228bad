import { hash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { ObjectFormat } from '../../domain/commit-id.ts'
import { Refusal } from '../../domain/refusal.ts'
import type { RefList } from '../../git/transfer.ts'
import { version } from '../../runtime.ts'
import { syncPath, writeDurably } from '../../util/durable.ts'
import { damagedBackup } from './format.ts'

/**
 * What a backup in a folder of backups contains besides its database. Backups share the objects of
 * repositories. The manifest is written last: without it, a backup is not complete.
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
  /** SHA-256 of the last line of the database, and its rows by table. */
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
  problem: string | null
  /** null if it has never been read. */
  content: RepositoryContent | null
}

export interface RepositoryContent extends RefList {
  copied_at: string
  /** Commits with statuses that no ref reaches. */
  commits: string[]
  /** Git's settings of a repository that the server created, such as which refs are hidden. */
  config: string | null
}

const VERSION = 1
const FILE = /^(\d{6}-\d{8}T\d{6}Z)\.(?:database|manifest)(\.part)?$/
const OBJECTS = /^\d+\.sha\d+\.git(?:\.part)?$/

/**
 * Returns the names of the complete backups in a folder, oldest first.
 *
 * @throws the system's error
 */
export async function listBackups(folder: string): Promise<string[]> {
  const files = (await readdir(folder)).filter((name) => name.endsWith('.manifest'))
  return files.flatMap((name) => FILE.exec(name)?.[1] ?? []).sort()
}

/**
 * Returns the names of backups that did not end, of which the folder has the database.
 *
 * @throws the system's error
 */
export async function listUnfinished(folder: string): Promise<string[]> {
  const finished = await listBackups(folder)
  const names = (await readdir(folder)).flatMap((name) => FILE.exec(name)?.[1] ?? [])
  return [...new Set(names)].filter((name) => !finished.includes(name)).sort()
}

/** Checks that a file, if it is the database of a backup in a folder, is one that ended. @throws Refusal */
export function checkFinished(file: string): void {
  const [, name] = FILE.exec(basename(file)) ?? []
  if (name === undefined) return
  const manifest = join(dirname(file), `${name}.manifest`)
  if (!existsSync(manifest))
    throw new Refusal(`${file} belongs to a backup that did not end: ${manifest} is missing. Use another one`)
}

/**
 * Returns the name of the backup after `latest`. The number comes first, because a clock may be set
 * back.
 */
export function nextName(latest = '0', now = new Date()): string {
  const time = now.toISOString().replace(/[-:]|\.\d+/g, '')
  return `${String(Number.parseInt(latest, 10) + 1).padStart(6, '0')}-${time}`
}

export function databaseOf(folder: string, name: string): string {
  return join(folder, `${name}.database`)
}

export function objectsOf(
  folder: string,
  { id, object_format }: Pick<RepositoryCopy, 'id' | 'object_format'>,
) {
  return join(folder, 'repositories', `${id}.${object_format}.git`)
}

/** Writes a manifest; then the backup is complete. All else must be on disk. */
export function writeManifest(
  folder: string,
  name: string,
  manifest: Omit<Manifest, 'version' | 'server'>,
): Promise<void> {
  const json = JSON.stringify({ version: VERSION, server: version, ...manifest })
  return writeDurably(join(folder, `${name}.manifest`), `${json}\n${hash('sha256', json)}\n`)
}

/** @throws Refusal if it is damaged or of a newer version; the system's error */
export async function readManifest(folder: string, name: string): Promise<Manifest> {
  const file = join(folder, `${name}.manifest`)
  const [json = '', sha256] = (await readFile(file, 'utf8')).split('\n')
  if (sha256 !== hash('sha256', json)) throw new Refusal(`${file}: ${damagedBackup().message}`)
  // The digest proves that `writeManifest` wrote it.
  const manifest = JSON.parse(json) as Manifest
  if (manifest.version === VERSION) return manifest
  throw new Refusal(`${file} has the format version ${manifest.version}, but this server reads ${VERSION}`)
}

/** Removes what interrupted backups have left, and all backups except the newest `keep`. */
export async function removeBackups(folder: string, keep: number): Promise<void> {
  const keptBackups = (await listBackups(folder)).slice(-keep)
  // A backup is not complete without its manifest, so that goes first.
  for (const name of (await readdir(folder)).sort().reverse()) {
    const [, backup, draft] = FILE.exec(name) ?? []
    if (!backup || (keptBackups.includes(backup) && !draft)) continue
    await rm(join(folder, name))
    await syncPath(folder)
  }
}

/**
 * Removes the objects of repositories that no backup names.
 *
 * @throws as `readManifest`, and then removes nothing
 */
export async function removeObjects(folder: string): Promise<void> {
  const manifests = (await listBackups(folder)).map((name) => readManifest(folder, name))
  const copies = (await Promise.all(manifests)).flatMap(({ repositories }) => repositories)
  const namedFolders = new Set(copies.map((copy) => objectsOf(folder, copy)))
  const files = (await readdir(join(folder, 'repositories'))).filter((name) => OBJECTS.test(name))
  for (const path of files.map((name) => join(folder, 'repositories', name)))
    if (!namedFolders.has(path)) await rm(path, { recursive: true })
}

import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ADMINISTRATOR } from '../../domain/actors.ts'
import { Refusal } from '../../domain/refusal.ts'
import { BACKUP } from '../../store/audit/audit.ts'
import { StoreUnavailable } from '../../store/engine.ts'
import type { Store } from '../../store/store.ts'
import { createFolder } from '../../util/durable.ts'
import { insteadOf, isExpected, isSystemError } from '../../util/expected-errors.ts'
import { walk } from '../../util/walk.ts'
import { type BackupRun, copyRepository, type EarlierBackup, keepEarlier } from './copy-repository.ts'
import { lockFile } from './file-lock.ts'
import { type BackupRows, damagedBackup } from './format.ts'
import * as generations from './generations.ts'
import { openObjects, type Verification } from './objects.ts'
import { readBackup } from './read.ts'
import type { OnRows } from './tables.ts'
import { writeBackup } from './write.ts'

interface BackupOptions {
  /** How many complete backups to keep. */
  keep: number
  /** Whether to include repositories that were imported. */
  imported: boolean
  /** Whether to read all backups in the folder, instead of what the new one relies on. */
  verifyAll?: boolean
}

interface BackupReport {
  /** The name of the new backup in the folder. */
  name: string
  /** Imported repositories that are not included. */
  left: string[]
  /** Repositories that could not be read, with the reason. */
  problems: string[]
  /** One sentence for each damage of the folder, and for what cannot be backed up. */
  notes: string[]
  /** What was read of the folder. */
  verified: Pick<Verification, 'bytes' | 'seconds'>
}

/**
 * Backs up the database, and then the repositories, to a folder. The server may be running. However
 * this ends, earlier backups remain complete. Of a repository that cannot be read, the new backup
 * has the content of the previous one.
 *
 * @throws Refusal if another backup to the folder is running; the system's error;
 * StoreUnavailable
 */
export async function backUp(
  store: Store,
  folder: string,
  options: BackupOptions,
  onProgress: OnRows,
): Promise<BackupReport> {
  await createFolder(join(folder, 'repositories'), 0o700)
  const unlock = lockFile(join(folder, 'lock'))
  if (!unlock) throw new Refusal(`another backup to ${folder} is running`)
  try {
    return await addGeneration(store, folder, options, onProgress)
  } catch (error) {
    // Alerts need not wait until the latest complete backup is old.
    const details = { problems: [error instanceof Error ? error.message : String(error)] }
    const event = { object: BACKUP, action: 'backup.incomplete', details } as const
    await store.audit
      .transaction(ADMINISTRATOR, (change) => change.record(event))
      .catch(insteadOf(StoreUnavailable, undefined))
    throw error
  } finally {
    unlock()
  }
}

async function addGeneration(
  store: Store,
  folder: string,
  { keep, imported, verifyAll = false }: BackupOptions,
  onProgress: OnRows,
): Promise<BackupReport> {
  const began = new Date()
  await generations.removeBackups(folder, Number.MAX_SAFE_INTEGER)
  const earlier = await readEarlier(folder, verifyAll)

  const name = generations.nextName(earlier.at(-1)?.name, began)
  const verification: Verification = { bytes: 0, seconds: 0, notes: [] }
  const run: BackupRun = { store, folder, name, earlier, verification }
  const { database, ids } = await backUpDatabase(store, generations.databaseOf(folder, name), onProgress)

  // Repositories that were created since are not in the database.
  const storedRows = (await store.repositories.list()).filter(({ id }) => ids.has(id))
  const wantedRows = storedRows.filter(({ managed }) => managed || imported)
  const copies: generations.RepositoryCopy[] = []
  for (const [index, row] of wantedRows.entries()) {
    const copy = await copyRepository(run, row)
    if (copy) copies.push(copy)
    onProgress('repositories', index + 1, wantedRows.length)
  }
  if (verifyAll) await verifyOthers(run, copies)

  const manifest = { created_at: began.toISOString(), database, repositories: copies }
  await generations.writeManifest(folder, name, manifest)
  await generations.removeBackups(folder, keep)
  // A backup of a newer version may name others.
  await generations.removeObjects(folder).catch(ignoreUnreadable)

  const problems = copies.flatMap(({ name, problem }) => (problem ? `${name}: ${problem}` : []))
  const size = {
    repositories: copies.length,
    refs: copies.flatMap(({ content }) => content?.refs ?? []).length,
    bytes: await folderSize(folder),
    seconds: (Date.now() - began.getTime()) / 1000,
  }
  await store.audit.transaction(ADMINISTRATOR, (change) =>
    change.record({
      object: BACKUP,
      ...(problems.length === 0
        ? { action: 'backup.completed', details: size }
        : { action: 'backup.incomplete', details: { ...size, problems } }),
    }),
  )

  const leftNames = storedRows
    .filter((row) => !wantedRows.includes(row))
    .map(({ owner, name }) => `${owner}/${name}`)
  const lostBackups = earlier.flatMap(({ name, lost }) => (lost ? `the backup ${name} is lost: ${lost}` : []))
  const { notes, ...verified } = verification
  return { name, left: leftNames, problems, notes: [...notes, ...lostBackups], verified }
}

/** Reads the manifests of all backups in a folder, and with `databases` their databases. */
async function readEarlier(folder: string, databases: boolean): Promise<EarlierBackup[]> {
  const earlier: EarlierBackup[] = []
  for (const name of await generations.listBackups(folder)) {
    const backup: EarlierBackup = { name, repositories: [] }
    earlier.push(backup)
    try {
      const { repositories, database } = await generations.readManifest(folder, name)
      backup.repositories = repositories
      if (!databases) continue
      const { sha256 } = await readBackup(generations.databaseOf(folder, name), {})
      if (sha256 !== database.sha256) throw damagedBackup()
    } catch (error) {
      if (!isExpected(error)) throw error
      backup.lost = error.message
    }
  }
  return earlier
}

/**
 * Writes the database to a file and reads it again. Returns the ids of the repositories in it too.
 */
async function backUpDatabase(store: Store, file: string, onProgress: OnRows) {
  await writeBackup(store.engine, file, onProgress)
  const ids = new Set<unknown>()
  const rows = async ({ table, columns, rows }: BackupRows) => {
    if (table === 'repositories') for (const row of rows) ids.add(row[columns.indexOf('id')])
  }
  const { sha256, counts } = await readBackup(file, { rows })
  return { database: { sha256, rows: counts }, ids }
}

/** Reads the objects of repositories that only earlier backups contain. */
async function verifyOthers(run: BackupRun, copies: readonly generations.RepositoryCopy[]): Promise<void> {
  const done = new Set(copies.map((copy) => generations.objectsOf(run.folder, copy)))
  for (const copy of run.earlier.flatMap(({ repositories }) => repositories)) {
    const path = generations.objectsOf(run.folder, copy)
    if (!copy.content || done.has(path)) continue
    done.add(path)
    const objects = await openObjects({ path, format: copy.object_format }, run.name, run.verification)
    await keepEarlier(run, copy, objects, null)
  }
}

/** Ignores that an earlier backup cannot be read, is damaged or was made by a newer version. */
function ignoreUnreadable(error: unknown): null {
  if (error instanceof Refusal || isSystemError(error)) return null
  throw error
}

async function folderSize(folder: string): Promise<number> {
  let bytes = 0
  for await (const { path, isFolder } of walk(folder)) if (!isFolder) bytes += (await stat(path)).size
  return bytes
}

import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Refusal } from '../../domain/refusal.ts'
import { insteadOf, isExpected, isSystemError } from '../../errors.ts'
import { GitFailed } from '../../git/errors.ts'
import { type OpenedRepository, openRepository } from '../../git/opened-repository.ts'
import { inspectRepository } from '../../git/repository.ts'
import {
  combinePacks,
  fetchObjects,
  gatherObjects,
  hasObjects,
  idsOf,
  isComplete,
  readRefList,
  unreachedCommits,
  writeTips,
} from '../../git/transfer.ts'
import { ADMINISTRATOR, BACKUP } from '../../store/audit/audit.ts'
import { StoreUnavailable } from '../../store/engine.ts'
import type { Repository } from '../../store/repositories/repositories.ts'
import type { Store } from '../../store/store.ts'
import { createFolder } from '../../util/durable.ts'
import { walk } from '../../util/walk.ts'
import { reportedCommits } from '../prune.ts'
import { lockFile } from './file-lock.ts'
import { type BackupRows, damagedBackup } from './format.ts'
import * as generations from './generations.ts'
import { findAside, openObjects, packsIn, setAside, type Verification, verifyPack } from './objects.ts'
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
  /** Imported repositories that are not included. */
  left: string[]
  /** Repositories that could not be read, with the reason. */
  problems: string[]
  /** One sentence for each damage of the folder, and for what cannot be backed up. */
  notes: string[]
  /** What was read of the folder. */
  verified: Pick<Verification, 'bytes' | 'seconds'>
}

/** An earlier backup in the folder. */
interface EarlierBackup {
  name: string
  /** Empty if its manifest cannot be read. */
  repositories: generations.RepositoryCopy[]
  /** Why it cannot be restored. */
  lost?: string
}

/** A backup that is being made. */
interface Run {
  store: Store
  folder: string
  name: string
  /** Oldest first. */
  earlier: EarlierBackup[]
  verification: Verification
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
  const run: Run = { store, folder, name, earlier, verification }
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
  return { left: leftNames, problems, notes: [...notes, ...lostBackups], verified }
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

/**
 * Copies a repository. One that cannot be read keeps the content that it has in the backup before.
 *
 * @returns null if it was deleted meanwhile
 */
async function copyRepository(run: Run, row: Repository): Promise<generations.RepositoryCopy | null> {
  const { id, createdAt: created_at, objectFormat: object_format, managed, path } = row
  const imported = managed ? null : path
  const copy = { id, created_at, name: `${row.owner}/${row.name}`, object_format, imported }
  const shared = { path: generations.objectsOf(run.folder, copy), format: object_format }
  let objects = await openObjects(shared, run.name, run.verification)
  try {
    const content = await copyContent(run, row, objects).catch(async (error: unknown) => {
      // git does not say which of the two repositories has failed.
      if (!(error instanceof GitFailed) || (await isComplete(objects))) throw error
      objects = await setAside(shared, run.name, `${shared.path} is incomplete`, run.verification)
      return copyContent(run, row, objects)
    })
    await keepEarlier(run, copy, objects, content, row)
    return { ...copy, problem: null, content }
  } catch (error) {
    if (error instanceof StoreUnavailable || !isExpected(error)) throw error
    if (!(await run.store.repositories.list()).some((other) => other.id === id)) return null
    await keepEarlier(run, copy, objects, null)
    // After the database was restored, another repository may have the id.
    const former = run.earlier
      .flatMap(({ repositories }) => repositories)
      .findLast((it) => it.id === id && it.created_at === created_at && it.content)?.content
    const isKept = former && (await hasObjects(objects, tipsOf(former)))
    return { ...copy, problem: error.message, content: isKept ? former : null }
  }
}

/**
 * Lists refs first, and then fetches their ids. So the two agree, whatever is pushed, deleted or
 * collected meanwhile. Reported commits that no ref reaches come last: git may have pruned a part.
 */
async function copyContent(
  { store, verification }: Run,
  row: Repository,
  objects: OpenedRepository,
): Promise<generations.RepositoryContent> {
  const { id, path, managed, objectFormat } = row
  const copied_at = new Date().toISOString()
  const repository = await openRepository(row)
  await inspectRepository(path)
  const verified = await packsIn(objects.path)

  const list = await readRefList(repository)
  const ids = idsOf(list)
  await fetchObjects(repository, objects, ids)
  await writeTips(objects, ids)

  const reported: string[] = []
  for await (const batch of reportedCommits(store.engine, id)) reported.push(...batch.map(({ sha }) => sha))
  const { commits, unreadable } = await fetchReported(repository, objects, reported, ids)
  if (unreadable > 0) {
    const what = unreadable === 1 ? '1 reported commit' : `${unreadable} reported commits`
    verification.notes.push(
      `${row.owner}/${row.name}: ${what} that no ref reaches cannot be read, and is not in the backup`,
    )
  }
  await combinePacks(objects)
  await writeTips(objects, [...ids, ...commits])

  for (const pack of (await packsIn(objects.path)).filter((pack) => !verified.includes(pack)))
    if (!(await verifyPack({ path: objects.path, format: objectFormat }, pack, verification)))
      throw new Refusal(`${pack} in ${objects.path} is damaged just after it was written: check the disk`)
  const config = managed ? await readFile(join(path, 'config'), 'utf8') : null
  return { ...list, copied_at, commits, config }
}

/**
 * Fetches reported commits, and their ancestors, that exist and that none of `ids` reaches. Halves
 * the list to find those that git cannot read, with all that they refer to.
 */
async function fetchReported(
  from: OpenedRepository,
  to: OpenedRepository,
  reported: readonly string[],
  ids: readonly string[],
): Promise<{ commits: string[]; unreadable: number }> {
  try {
    const commits = await unreachedCommits(from, reported, ids)
    await fetchObjects(from, to, commits, ids)
    return { commits, unreadable: 0 }
  } catch (error) {
    if (!(error instanceof GitFailed)) throw error
    if (reported.length <= 1) return { commits: [], unreadable: reported.length }
  }
  const middle = reported.length >> 1
  const first = await fetchReported(from, to, reported.slice(0, middle), ids)
  const second = await fetchReported(from, to, reported.slice(middle), ids)
  return {
    commits: [...new Set([...first.commits, ...second.commits])],
    unreadable: first.unreadable + second.unreadable,
  }
}

/**
 * Makes sure that earlier backups of a repository can be restored: what its shared repository lacks
 * is taken from what was set aside, and from the repository itself. Otherwise they are lost.
 *
 * @param content of the new backup
 */
async function keepEarlier(
  { earlier }: Run,
  copy: Pick<generations.RepositoryCopy, 'id' | 'name' | 'object_format'>,
  objects: OpenedRepository,
  content: generations.RepositoryContent | null,
  row?: Repository,
): Promise<void> {
  const backups = earlier.flatMap((backup) =>
    backup.repositories
      .filter(({ id, object_format }) => id === copy.id && object_format === copy.object_format)
      .flatMap(({ content }) => (content ? { backup, tips: tipsOf(content) } : [])),
  )
  const knownTips = content ? tipsOf(content) : []
  if (await hasObjects(objects, [...new Set(backups.flatMap(({ tips }) => tips))], knownTips)) return

  const places = [...(await findAside(objects.path)), ...(row ? [(await openRepository(row)).path] : [])]
  const folders = places.map((place) => join(place, 'objects'))
  const keptTips = [...knownTips]
  for (const { backup, tips } of backups) {
    if (await gatherObjects(objects, tips, knownTips, folders)) keptTips.push(...tips)
    else backup.lost ??= `objects of ${copy.name} exist nowhere any more`
  }
  await writeTips(objects, keptTips)
}

/** Reads the objects of repositories that only earlier backups contain. */
async function verifyOthers(run: Run, copies: readonly generations.RepositoryCopy[]): Promise<void> {
  const done = new Set(copies.map((copy) => generations.objectsOf(run.folder, copy)))
  for (const copy of run.earlier.flatMap(({ repositories }) => repositories)) {
    const path = generations.objectsOf(run.folder, copy)
    if (!copy.content || done.has(path)) continue
    done.add(path)
    const objects = await openObjects({ path, format: copy.object_format }, run.name, run.verification)
    await keepEarlier(run, copy, objects, null)
  }
}

/** Returns the ids of all that a backup of a repository refers to. */
function tipsOf({ commits, ...list }: generations.RepositoryContent): string[] {
  return [...idsOf(list), ...commits]
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

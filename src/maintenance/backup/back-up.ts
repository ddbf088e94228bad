import { existsSync } from 'node:fs'
import { appendFile, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { ObjectFormat } from '../../domain/commit-id.ts'
import { RuleViolation } from '../../domain/rule-violation.ts'
import { isSystemError } from '../../errors.ts'
import { openRepository } from '../../git/opened-repository.ts'
import { createBareRepository, inspectRepository } from '../../git/repository.ts'
import { addObjects, idsOf, listRefs, unreachedCommits } from '../../git/transfer.ts'
import { ADMINISTRATOR, BACKUP } from '../../store/audit/audit.ts'
import { StoreUnavailable } from '../../store/engine.ts'
import type { Repository } from '../../store/repositories/repositories.ts'
import type { Store } from '../../store/store.ts'
import { createFolder, publish } from '../../util/durable.ts'
import { walk } from '../../util/walk.ts'
import { reportedCommits } from '../prune.ts'
import { lockFile } from './file-lock.ts'
import type { BackupRows } from './format.ts'
import * as generations from './generations.ts'
import { readBackup } from './read.ts'
import type { OnRows } from './tables.ts'
import { writeBackup } from './write.ts'

interface BackupOptions {
  /** How many complete backups to keep. */
  keep: number
  /** Whether to include repositories that were imported. */
  imported: boolean
}

interface BackupReport {
  /** Imported repositories that are not included. */
  left: string[]
  /** Repositories that could not be read, with the reason. */
  problems: string[]
}

/**
 * Backs up the database, and then the repositories, to a folder. The server may be running. However
 * this ends, earlier backups remain complete. Of a repository that cannot be read, the new backup
 * has the content of the previous one.
 *
 * @throws RuleViolation if another backup to the folder is running; the system's error;
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
  if (!unlock) throw new RuleViolation(`another backup to ${folder} is running`)
  try {
    return await addGeneration(store, folder, options, onProgress)
  } finally {
    unlock()
  }
}

async function addGeneration(
  store: Store,
  folder: string,
  { keep, imported }: BackupOptions,
  onProgress: OnRows,
): Promise<BackupReport> {
  const began = new Date()
  await generations.removeBackups(folder, Number.MAX_SAFE_INTEGER)
  const latest = (await generations.listBackups(folder)).at(-1)
  const earlier = latest ? await generations.readManifest(folder, latest).catch(ignoreUnreadable) : null

  const name = generations.nextName(latest, began)
  const { database, ids } = await backUpDatabase(store, generations.databaseOf(folder, name), onProgress)

  // Repositories that were created since are not in the database.
  const stored = (await store.repositories.list()).filter(({ id }) => ids.has(id))
  const wanted = stored.filter(({ managed }) => managed || imported)
  const copies: generations.RepositoryCopy[] = []
  for (const [index, row] of wanted.entries()) {
    const copy = await copyRepository(store, folder, row, earlier)
    if (copy) copies.push(copy)
    onProgress('repositories', index + 1, wanted.length)
  }

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
  await store.audit.transaction((_db, record) =>
    record({
      by: ADMINISTRATOR,
      object: BACKUP,
      ...(problems.length === 0
        ? { action: 'backup.completed', details: size }
        : { action: 'backup.incomplete', details: { ...size, problems } }),
    }),
  )

  const left = stored.filter((row) => !wanted.includes(row)).map(({ owner, name }) => `${owner}/${name}`)
  return { left, problems }
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
async function copyRepository(
  store: Store,
  folder: string,
  row: Repository,
  earlier: generations.Manifest | null,
): Promise<generations.RepositoryCopy | null> {
  const { id, createdAt: created_at, objectFormat: object_format, managed, path } = row
  const imported = managed ? null : path
  const copy = { id, created_at, name: `${row.owner}/${row.name}`, object_format, imported }
  try {
    const content = await copyContent(store, row, generations.objectsOf(folder, copy))
    return { ...copy, problem: null, content }
  } catch (error) {
    if (error instanceof StoreUnavailable) throw error
    if (!(await store.repositories.list()).some((other) => other.id === id)) return null
    const problem = error instanceof Error ? error.message : String(error)
    // After the database was restored, another repository may have the id.
    const former = earlier?.repositories.find((it) => it.id === id && it.created_at === created_at)
    return { ...copy, problem, content: former?.content ?? null }
  }
}

/**
 * Lists refs first, and then fetches their ids. So the two agree, whatever is pushed, deleted or
 * collected meanwhile.
 */
async function copyContent(
  store: Store,
  row: Repository,
  objects: string,
): Promise<generations.RepositoryContent> {
  const { id, path, managed, objectFormat } = row
  const copied_at = new Date().toISOString()
  const repository = await openRepository(row)
  await inspectRepository(path)

  const list = await listRefs(repository)
  const ids = idsOf(list)
  const reported: string[] = []
  for await (const batch of reportedCommits(store.engine, id)) reported.push(...batch.map(({ sha }) => sha))
  const commits = await unreachedCommits(repository, reported, ids)

  if (!existsSync(objects)) await createObjects(objects, objectFormat)
  const copy = await openRepository({ path: objects, ownerTrust: 'trusted' })
  await addObjects(repository, copy, [...ids, ...commits])
  const config = managed ? await readFile(join(path, 'config'), 'utf8') : null
  return { ...list, copied_at, commits, config }
}

/** Creates the repository that all backups of a repository share. */
async function createObjects(path: string, objectFormat: ObjectFormat): Promise<void> {
  const draft = `${path}.part`
  await rm(draft, { recursive: true, force: true })
  await createBareRepository(draft, objectFormat)
  // Also for whoever runs git there: nothing may ever be pruned.
  await appendFile(join(draft, 'config'), '[gc]\n\tauto = 0\n')
  await publish(draft, path)
}

/** Ignores that an earlier backup cannot be read, is damaged or was made by a newer version. */
function ignoreUnreadable(error: unknown): null {
  if (error instanceof RuleViolation || isSystemError(error)) return null
  throw error
}

async function folderSize(folder: string): Promise<number> {
  let bytes = 0
  for await (const { path, isFolder } of walk(folder)) if (!isFolder) bytes += (await stat(path)).size
  return bytes
}

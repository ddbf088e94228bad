import { existsSync, rmSync, statSync } from 'node:fs'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Kysely, sql, type Transaction } from 'kysely'
import { ADMINISTRATOR } from '../../domain/actors.ts'
import { Refusal } from '../../domain/refusal.ts'
import { openRepository } from '../../git/opened-repository.ts'
import { createBareRepository } from '../../git/repository.ts'
import { fetchObjects, hasRefs, idsOf, writeRefs } from '../../git/transfer.ts'
import { BACKUP } from '../../store/audit/audit.ts'
import { recordEvents } from '../../store/audit/event-rows.ts'
import { DELETED } from '../../store/deleted-repositories.ts'
import type { Engine } from '../../store/engine.ts'
import { settleAsUnknown } from '../../store/repositories/pushes.ts'
import { appliedMigrations } from '../../store/schema/migrate.ts'
import { completeOlderRows } from '../../store/schema/older-rows.ts'
import { databaseFile, openStore, type Store, type StoreOptions } from '../../store/store.ts'
import type { Tables } from '../../store/tables.ts'
import { nowInSeconds } from '../../store/time.ts'
import { runInTransaction } from '../../store/transaction-context.ts'
import { createFolder, publishAll, publishNew, SyncedDraft } from '../../util/durable.ts'
import { emptyWhenMissing } from '../../util/expected-errors.ts'
import { lockFile } from './file-lock.ts'
import { type BackupEnd, type BackupHeader, type BackupRows, damagedBackup } from './format.ts'
import {
  checkFinished,
  databaseOf,
  listBackups,
  listUnfinished,
  objectsOf,
  type RepositoryCopy,
  readManifest,
} from './generations.ts'
import { readBackup } from './read.ts'
import { durableTables, type OnRows } from './tables.ts'

/** What to restore. */
export interface RestoreSource {
  /** The database, and the digest in its last line if it is known. */
  file: string
  sha256?: string
  /** The folder of backups, for the objects of `repositories`. */
  folder: string
  repositories: RepositoryCopy[]
  /** Names of later backups that did not end. */
  unfinished: string[]
}

/** The first and the last line of the database. */
type BackupFrame = Pick<BackupHeader, 'created_at'> & BackupEnd
type RestoredDatabase = BackupFrame & { locked: number }

type RestoreOptions = StoreOptions & { lockUsers?: boolean }

const DRAFT = '.restore'

/**
 * Finds a backup in a folder, as `findBackup`.
 *
 * @throws Refusal also if there is no such folder
 */
export async function findBackupInFolder(path: string): Promise<RestoreSource> {
  const found = statSync(path, { throwIfNoEntry: false })
  if (!found?.isDirectory())
    throw new Refusal(`${path} ${found ? 'is not a folder of backups' : 'does not exist'}`)
  return findBackup(path)
}

/**
 * Finds a backup in a folder, or in a single file, which has no repositories.
 *
 * @param time the beginning of the time of the wanted backup, or its name; empty for the newest
 * complete one
 * @throws Refusal if there is none, or if its manifest is damaged or of a newer version; the
 * system's error
 */
export async function findBackup(path: string, time = ''): Promise<RestoreSource> {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) {
    checkFinished(path)
    return { file: path, folder: path, repositories: [], unfinished: [] }
  }
  const names = await listBackups(path)
  const digits = time.replace(/[-:]/g, '')
  const name = names.findLast((name) => name === time || name.includes(`-${digits}`))
  if (!name) {
    const others = time && ` of "${time}" (it contains: ${names.join(', ') || 'none'})`
    throw new Refusal(`${path} contains no complete backup${others}`)
  }
  const { database, repositories } = await readManifest(path, name)
  const unfinished = (await listUnfinished(path)).filter((other) => other > name)
  return { file: databaseOf(path, name), sha256: database.sha256, folder: path, repositories, unfinished }
}

/**
 * Restores a database and repositories into an empty place. All of it is complete beside its place,
 * before the repositories are moved there, and then the database, at once. So no server ever starts
 * with a part. A restore that was killed in between finds the repositories in place, as does one
 * into another database: those stay that have exactly the refs of the backup.
 *
 * @throws Refusal if the place is not empty, or if something is missing or damaged
 */
export async function restoreAll(
  options: RestoreOptions,
  source: RestoreSource,
  onRows: OnRows,
): Promise<RestoredDatabase> {
  const { dataDir, databaseUrl } = options
  const folder = join(dataDir, 'repositories')
  const copies = await findMissing(folder, source.repositories)
  const file = databaseFile(dataDir)
  const isNew = !databaseUrl && !existsSync(file)
  // SQLite would add its content to the new database.
  if (isNew && existsSync(`${file}-wal`))
    throw new Refusal(`${file}-wal is in the way: it belongs to a database that is gone. Move it away`)

  await createFolder(dataDir, 0o700)
  const draft = join(dataDir, DRAFT)
  return withDrafts(dataDir, [draft, join(folder, DRAFT)], async () => {
    const place = isNew ? draft : dataDir
    const store = await openStore({ ...options, dataDir: place, create: 'restore' })
    const restored = restoreInto(store, options, source, copies, onRows).then(async (result) => {
      // Closing the database ignores a full disk, and keeps the rest in a file that is not published.
      if (isNew) await store.engine.completeFile?.()
      return result
    })
    const result = await restored.finally(() => store.close())
    // Fails if another process has created a database meanwhile.
    if (isNew) await publishNew(databaseFile(place), file)
    return result
  })
}

/** Runs the only restore into a folder. Removes its drafts before, and however it ends. */
async function withDrafts<T>(dataDir: string, drafts: string[], restore: () => Promise<T>): Promise<T> {
  const lock = join(dataDir, `${DRAFT}.lock`)
  const unlock = lockFile(lock)
  if (!unlock) throw new Refusal(`another restore into ${dataDir} is running`)
  const remove = (paths: string[]) => {
    for (const path of paths) rmSync(path, { recursive: true, force: true, maxRetries: 3 })
  }
  const stop = (signal: NodeJS.Signals) => {
    remove([...drafts, lock])
    process.kill(process.pid, signal)
  }
  process.once('SIGINT', stop).once('SIGTERM', stop)
  try {
    remove(drafts)
    return await restore()
  } finally {
    process.off('SIGINT', stop).off('SIGTERM', stop)
    remove([...drafts, lock])
    unlock()
  }
}

async function restoreInto(
  { engine }: Store,
  { dataDir, operator, lockUsers }: RestoreOptions,
  source: RestoreSource,
  copies: readonly RepositoryCopy[],
  onRows: OnRows,
): Promise<RestoredDatabase> {
  const folder = join(dataDir, 'repositories')
  await checkEmpty(engine.kysely)

  const drafts: { draft: SyncedDraft; place: string }[] = []
  for (const [index, copy] of copies.entries()) {
    const path = join(folder, DRAFT, `${copy.id}.git`)
    await restoreRepository(source.folder, copy, path)
    drafts.push({ draft: await SyncedDraft.of(path), place: join(folder, `${copy.id}.git`) })
    onRows('repositories', index + 1, copies.length)
  }

  let locked = 0
  const frame = await restoreBackup(engine, source.file, onRows, async (db, { created_at, sha256 }) => {
    if (source.sha256 && sha256 !== source.sha256) throw damagedBackup()
    if (source.sha256) await removeUnnamed(db, source.repositories)
    const movedCopies = source.repositories.filter((copy) => copy.imported !== null && copy.content)
    for (const { id } of movedCopies)
      await db.updateTable('repositories').set({ path: null }).where('id', '=', id).execute()
    await settleAsUnknown(db)
    if (lockUsers) {
      const users = db.updateTable('users').set({ locked_at: nowInSeconds() }).where('locked_at', 'is', null)
      locked = Number((await users.executeTakeFirstOrThrow()).numUpdatedRows)
    }
    const event = { action: 'backup.restored', object: BACKUP, details: { created_at, locked } } as const
    await recordEvents(db, ADMINISTRATOR, [event], operator)
    await publishAll(drafts)
  })
  return { ...frame, locked }
}

/** Removes repositories that the server created and that were deleted while the backup was made. */
async function removeUnnamed(db: Transaction<Tables>, copies: readonly RepositoryCopy[]): Promise<void> {
  const copiedIds = new Set(copies.map(({ id }) => id))
  const managed = await db.selectFrom('repositories').select('id').where('path', 'is', null).execute()
  for (const { id } of managed)
    if (!copiedIds.has(id)) await db.deleteFrom('repositories').where('id', '=', id).execute()
}

/** Returns the repositories that are not in place. @throws Refusal if anything else is */
async function findMissing(folder: string, copies: readonly RepositoryCopy[]): Promise<RepositoryCopy[]> {
  if (copies.length === 0) return []
  const present: string[] = await readdir(folder).catch(emptyWhenMissing)
  for (const name of present.filter((name) => !name.startsWith('.') && name !== 'lost+found')) {
    const content = copies.find(({ id }) => name === `${id}.git`)?.content
    if (content && (await hasRefs({ path: join(folder, name), ownerTrust: 'trusted' }, content))) continue
    throw new Refusal(
      `${join(folder, name)} is in the way: it is not what the backup contains. Move ${folder} away to restore all of the backup, ` +
        'or restore only its database: give the file instead of the folder',
    )
  }
  return copies.filter(({ id, content }) => content && !present.includes(`${id}.git`))
}

async function restoreRepository(folder: string, copy: RepositoryCopy, path: string): Promise<void> {
  const { name, object_format, content } = copy
  if (!content) return
  try {
    await createBareRepository(path, object_format)
    const files = { path, ownerTrust: 'trusted' } as const
    const repository = await openRepository(files)
    const objects = await openRepository({ ...files, path: objectsOf(folder, copy) })
    await fetchObjects(objects, repository, [...idsOf(content), ...content.commits])
    // The refs are restored in git's default format.
    const config = content.config?.replace(/^[ \t]*refstorage[ \t]*=.*\n/gim, '')
    if (config) await writeFile(join(path, 'config'), config)
    await writeRefs(repository, content)
    if (!(await hasRefs(files, content))) throw new Error('its refs are not those of the backup')
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new Refusal(`repository ${name} cannot be restored: ${reason}`, { cause: error })
  }
}

/**
 * Restores a backup of either kind of database into an empty database, in one transaction.
 *
 * @param finish runs at the end of the transaction
 * @throws Refusal if the database is not empty, or if the file cannot be read, is not a
 * backup, damaged or written by a newer version; StoreUnavailable
 */
export async function restoreBackup(
  engine: Engine,
  file: string,
  onRows: OnRows,
  finish: (db: Transaction<Tables>, frame: BackupFrame) => Promise<void> = async () => {},
): Promise<BackupFrame> {
  // Reads the whole file first, to find damage before hours are spent on the rows before it.
  const applied = await appliedMigrations(engine.kysely)

  let created_at = ''
  const header = async (header: BackupHeader) => {
    const unknown = header.migrations.find((name) => !applied.has(name))
    if (unknown)
      throw new Refusal(
        `the backup was made by a newer version: unknown migration "${unknown}". Upgrade the server to restore it`,
      )
    created_at = header.created_at
  }
  const { counts, last_ids } = await readBackup(file, { header })
  const setLastIds = async (db: Transaction<Tables>) => {
    for (const { name, numbered } of durableTables)
      if (numbered) await engine.setLastId(db, name, last_ids[name] ?? 0)
  }

  const restore = async (db: Transaction<Tables>) => {
    await checkEmpty(db)
    // Fails before the rows if the role may not.
    await setLastIds(db)
    const done = new Map<string, number>()
    const rows = async (part: BackupRows) => {
      if (!durableTables.some(({ name }) => name === part.table)) throw damagedBackup()
      await insertRows(db, part)
      const count = (done.get(part.table) ?? 0) + part.rows.length
      done.set(part.table, count)
      onRows(part.table, count, counts[part.table] ?? count)
    }

    const end = await readBackup(file, { rows })
    await setLastIds(db)
    // Of a backup by the version before, which does not leave them out.
    await db.deleteFrom('repositories').where('owner_key', '=', DELETED).execute()
    for (const statement of completeOlderRows(engine.dialect)) await sql.raw(statement).execute(db)
    const frame = { created_at, ...end }
    await finish(db, frame)
    return frame
  }
  return engine.kysely.transaction().execute((db) => runInTransaction(() => restore(db)))
}

/** @throws Refusal if a table has rows */
async function checkEmpty(db: Kysely<Tables>): Promise<void> {
  for (const { name } of durableTables) {
    const { rows } = await sql`select 1 from ${sql.table(name)} limit 1`.execute(db)
    if (rows.length > 0)
      throw new Refusal(
        `the database is not empty: it contains ${name}; move it away, or name an empty one with DATA_DIR or DATABASE_URL`,
      )
  }
}

async function insertRows(db: Transaction<Tables>, { table, columns, rows }: BackupRows): Promise<void> {
  if (rows.some((row) => row.length !== columns.length)) throw damagedBackup()
  const names = sql.join(columns.map((name) => sql.ref(name)))
  const values = sql.join(rows.map((row) => sql`(${sql.join(row)})`))
  await sql`insert into ${sql.table(table)} (${names}) values ${values}`.execute(db)
}

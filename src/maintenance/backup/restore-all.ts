import { existsSync } from 'node:fs'
import { link, readdir, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Kysely } from 'kysely'
import { createBareRepository } from '../../git/repository.ts'
import { fetchObjects, idsOf, isSameRefs, listRefs, writeRefs } from '../../git/transfer.ts'
import { ADMINISTRATOR, BACKUP, recordEvent } from '../../store/audit.ts'
import { settleAsUnknown } from '../../store/pushes.ts'
import { RuleViolation } from '../../store/rule-violation.ts'
import { databaseFile, openStore, type Store, type StoreOptions } from '../../store/store.ts'
import type { Tables } from '../../store/tables.ts'
import { nowInSeconds } from '../../store/time.ts'
import { createFolder, syncPath } from '../../util/durable.ts'
import { emptyWhenMissing } from '../../util/missing.ts'
import { type BackupHeader, damaged } from './format.ts'
import {
  databaseOf,
  digestFile,
  listBackups,
  objectsOf,
  type RepositoryCopy,
  readManifest,
} from './generations.ts'
import { checkEmpty, type RestoredDatabase, restoreBackup } from './restore.ts'
import type { OnRows } from './tables.ts'

/** What to restore. */
export interface RestoreSource {
  /** The database. */
  file: string
  /** The folder of backups, for the objects of `repositories`. */
  folder: string
  repositories: RepositoryCopy[]
}

/** What is restored beside its place, until all of it is complete. */
const STAGING = '.restore'

/**
 * Finds a backup in a folder.
 *
 * @param time the beginning of the time of the wanted backup, or its name; empty for the newest complete one
 * @throws RuleViolation if there is none, or if it is damaged or of a newer version; the system's error
 */
export async function findBackup(folder: string, time: string): Promise<RestoreSource> {
  const names = await listBackups(folder)
  const digits = time.replace(/[-:]/g, '')
  const name = names.findLast((name) => name === time || name.includes(`-${digits}`))
  if (!name) {
    const others = time && ` of "${time}" (it contains: ${names.join(', ') || 'none'})`
    throw new RuleViolation(`${folder} contains no complete backup${others}`)
  }
  const { database, repositories } = await readManifest(folder, name)
  const file = databaseOf(folder, name)
  if ((await digestFile(file)) !== database.sha256) throw new RuleViolation(`${file}: ${damaged().message}`)
  return { file, folder, repositories }
}

/**
 * Restores a database and repositories into an empty place. The repositories come first and the database last, at once: a crash
 * never leaves a server that has one without the other. If this fails, the place is as it was before.
 *
 * Repositories that are in place already stay, if each has exactly the refs of the backup. So a restore after one that was
 * killed completes it, and a restore into another database finds the repositories that it needs.
 *
 * @throws RuleViolation if the place is not empty, or if something is missing or damaged; the reason of `signal`
 */
export async function restoreAll(
  options: StoreOptions,
  source: RestoreSource,
  { lockUsers, signal }: { lockUsers: boolean; signal: AbortSignal },
  onRows: OnRows,
): Promise<RestoredDatabase & { locked: number }> {
  const { dataDir } = options
  const folder = join(dataDir, 'repositories')
  const staging = join(folder, STAGING)
  const created = [folder, dataDir].filter((path) => !existsSync(path))
  const copies = await findMissing(folder, source.repositories)
  const placed: string[] = []
  const progress: OnRows = (...row) => {
    signal.throwIfAborted()
    onRows(...row)
  }
  try {
    await createFolder(dataDir, 0o700)
    await rm(staging, { recursive: true, force: true })
    const restored = await withDatabase(options, async ({ engine }) => {
      await checkEmpty(engine.kysely)
      for (const [index, copy] of copies.entries()) {
        await restoreRepository(source.folder, copy, join(staging, `${copy.id}.git`), signal)
        progress('repositories', index + 1, copies.length)
      }
      let locked = 0
      const finish = async (db: Kysely<Tables>, { created_at }: BackupHeader) => {
        const imported = source.repositories.filter((copy) => copy.imported !== null && copy.content)
        for (const { id } of imported)
          await db.updateTable('repositories').set({ path: null }).where('id', '=', id).execute()
        await settleAsUnknown(db)
        if (lockUsers) locked = await lockAll(db, options.operator)
        const details = { created_at, locked }
        await recordEvent(
          db,
          { by: ADMINISTRATOR, action: 'backup.restored', object: BACKUP, details },
          options.operator,
        )
        for (const { id } of copies) {
          await rename(join(staging, `${id}.git`), join(folder, `${id}.git`))
          placed.push(join(folder, `${id}.git`))
        }
        if (copies.length > 0) await syncPath(folder)
        // If the connection is lost now, the rows may be committed all the same. A repeated restore finds these in place.
        if (options.databaseUrl) placed.length = 0
      }
      return { ...(await restoreBackup(engine, source.file, progress, finish)), locked }
    })
    await rm(staging, { recursive: true, force: true })
    return restored
  } catch (error) {
    for (const path of [...placed, staging]) await rm(path, { recursive: true, force: true })
    for (const path of created) await rmdir(path).catch(() => {})
    throw error
  }
}

/** Returns the repositories that are not in place. @throws RuleViolation if anything else is */
async function findMissing(folder: string, copies: readonly RepositoryCopy[]): Promise<RepositoryCopy[]> {
  const wanted = copies.filter(({ content }) => content)
  if (copies.length === 0) return []
  const present: string[] = await readdir(folder).catch(emptyWhenMissing)
  for (const name of present.filter((name) => !name.startsWith('.') && name !== 'lost+found')) {
    const copy = wanted.find(({ id }) => name === `${id}.git`)
    const list = copy?.content && (await listRefs(join(folder, name)).catch(() => null))
    if (copy?.content && list && isSameRefs(list, copy.content)) continue
    throw new RuleViolation(
      `${join(folder, name)} is in the way: it is not what the backup contains. Move ${folder} away to restore all of the backup, ` +
        'or restore only its database: give the file instead of the folder',
    )
  }
  return wanted.filter(({ id }) => !present.includes(`${id}.git`))
}

async function restoreRepository(
  folder: string,
  copy: RepositoryCopy,
  path: string,
  signal: AbortSignal,
): Promise<void> {
  const { name, object_format, content } = copy
  if (!content) return
  try {
    await createBareRepository(path, object_format)
    await fetchObjects(objectsOf(folder, copy), path, [...idsOf(content), ...content.commits], signal)
    // The refs are restored in git's default format.
    const config = content.config?.replace(/^[ \t]*refstorage[ \t]*=.*\n/gim, '')
    if (config) await writeFile(join(path, 'config'), config)
    await writeRefs(path, content)
    if (!isSameRefs(await listRefs(path), content)) throw new Error('its refs are not those of the backup')
  } catch (error) {
    if (signal.aborted) throw error
    const reason = error instanceof Error ? error.message : String(error)
    throw new RuleViolation(`repository ${name} cannot be restored: ${reason}`, { cause: error })
  }
}

/** Runs `work` on the database, or on a new one that takes its place only if `work` succeeds. */
async function withDatabase<T>(options: StoreOptions, work: (store: Store) => Promise<T>): Promise<T> {
  const file = databaseFile(options.dataDir)
  const isNew = !options.databaseUrl && !existsSync(file)
  // SQLite would add its content to the new database.
  if (isNew && existsSync(`${file}-wal`))
    throw new RuleViolation(`${file}-wal is in the way: it belongs to a database that is gone. Move it away`)
  const staging = join(options.dataDir, STAGING)
  await rm(staging, { recursive: true, force: true })
  try {
    const store = await openStore(isNew ? { ...options, dataDir: staging } : options)
    const result = await work(store).finally(() => store.close())
    if (!isNew) return result
    await syncPath(databaseFile(staging))
    // Fails if another process has created a database meanwhile.
    await link(databaseFile(staging), file)
    await syncPath(options.dataDir)
    return result
  } finally {
    await rm(staging, { recursive: true, force: true })
  }
}

/** Locks all users. @returns how many */
async function lockAll(db: Kysely<Tables>, operator: StoreOptions['operator']): Promise<number> {
  const users = await db.selectFrom('users').select(['id', 'name']).where('locked_at', 'is', null).execute()
  await db.updateTable('users').set({ locked_at: nowInSeconds() }).where('locked_at', 'is', null).execute()
  for (const user of users)
    await recordEvent(
      db,
      { by: ADMINISTRATOR, action: 'user.locked', user, details: { sessions: 0 } },
      operator,
    )
  return users.length
}

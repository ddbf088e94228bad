import { existsSync } from 'node:fs'
import { appendFile, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { createBareRepository, inspectRepository } from '../../git/repository.ts'
import * as transfer from '../../git/transfer.ts'
import { version } from '../../runtime.ts'
import { ADMINISTRATOR, BACKUP } from '../../store/audit.ts'
import { StoreUnavailable } from '../../store/engine.ts'
import type { Repository } from '../../store/repositories.ts'
import { RuleViolation } from '../../store/rule-violation.ts'
import type { Store } from '../../store/store.ts'
import { createFolder, renameDurably } from '../../util/durable.ts'
import { lockFile } from '../../util/file-lock.ts'
import { walk } from '../../util/walk.ts'
import { reportedCommits } from '../prune.ts'
import * as generations from './generations.ts'
import { readBackup } from './read.ts'
import type { OnRows } from './tables.ts'
import { writeBackup } from './write.ts'

export interface BackupResult {
  repositories: number
  refs: number
  /** Imported repositories that are not included. */
  left: string[]
  /** Repositories that could not be read, with the reason. */
  problems: string[]
}

/** How often a repository is read before it counts as broken: a garbage collection may remove an object meanwhile. */
const ATTEMPTS = 3

/**
 * Backs up the database, and then the repositories, to a folder. The server may be running. However this ends, earlier backups
 * remain complete. Of a repository that cannot be read, the new backup has the content of the previous one.
 *
 * Refs are listed first, and then the objects are fetched by their ids. So whatever is pushed, deleted or collected
 * meanwhile, the list and the objects agree.
 *
 * @param keep how many complete backups to keep
 * @param imported whether to include repositories that were imported
 * @throws RuleViolation if another backup to the folder is running; the system's error; StoreUnavailable
 */
export async function backUp(
  store: Store,
  folder: string,
  { keep, imported }: { keep: number; imported: boolean },
  onProgress: OnRows,
): Promise<BackupResult> {
  const began = new Date()
  await createFolder(join(folder, 'repositories'), 0o700)
  const unlock = lockFile(join(folder, 'lock'))
  if (!unlock) throw new RuleViolation(`another backup to ${folder} is running`)
  try {
    await generations.removeBackups(folder)
    const latest = (await generations.listBackups(folder)).at(-1)
    const earlier =
      latest === undefined ? null : await generations.readManifest(folder, latest).catch(() => null)
    const name = generations.nextName(latest, began)
    const database = generations.databaseOf(folder, name)
    const rows: Record<string, number> = {}
    await writeBackup(store.engine, database, (table, done, total) => {
      rows[table] = done
      onProgress(table, done, total)
    })
    const lastIds = await readBackup(database, { header: async () => {}, rows: async () => {} })
    // Not those that were created since.
    const found = (await store.repositories.list()).filter(({ id }) => id <= (lastIds.repositories ?? 0))
    const wanted = found.filter(({ managed }) => managed || imported)
    const left = found.filter((row) => !wanted.includes(row)).map(({ owner, name }) => `${owner}/${name}`)
    const repositories: generations.RepositoryCopy[] = []
    for (const [index, row] of wanted.entries()) {
      const known = earlier?.repositories.find(
        ({ id, created_at }) => id === row.id && created_at === row.created_at,
      )
      repositories.push(...(await copyRepository(store, folder, row, known?.content)))
      onProgress('repositories', index + 1, wanted.length)
    }
    await generations.writeManifest(folder, name, {
      version: generations.VERSION,
      server: version,
      created_at: began.toISOString(),
      database: { sha256: await generations.digestFile(database), rows },
      repositories,
    })
    await generations.removeBackups(folder, keep)
    const refs = repositories.reduce((sum, { content }) => sum + (content?.refs.length ?? 0), 0)
    const problems = repositories.flatMap(({ name, problem }) => (problem ? `${name}: ${problem}` : []))
    const seconds = (Date.now() - began.getTime()) / 1000
    const details = { repositories: repositories.length, refs, bytes: await sizeOf(folder), seconds }
    const event = { by: ADMINISTRATOR, object: BACKUP } as const
    await store.audit.transaction((_db, record) =>
      record(
        problems.length === 0
          ? { ...event, action: 'backup.completed', details }
          : { ...event, action: 'backup.incomplete', details: { ...details, problems } },
      ),
    )
    return { repositories: repositories.length, refs, left, problems }
  } finally {
    unlock()
  }
}

/** Returns a repository, with its former content if it cannot be read now; nothing if it was deleted meanwhile. */
async function copyRepository(
  store: Store,
  folder: string,
  row: Repository,
  former?: generations.RepositoryContent,
): Promise<generations.RepositoryCopy[]> {
  const { id, created_at, object_format, managed, path } = row
  const name = `${row.owner}/${row.name}`
  const copy = { id, created_at, name, object_format, imported: managed ? null : path }
  for (let attempt = 1; ; attempt++) {
    try {
      return [{ ...copy, content: await copyContent(store, row, generations.objectsOf(folder, copy)) }]
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error
      if (!(await store.repositories.list()).some((other) => other.id === id)) return []
      const problem = error instanceof Error ? error.message : String(error)
      if (attempt === ATTEMPTS) return [{ ...copy, problem, ...(former && { content: former }) }]
    }
  }
}

async function copyContent(
  store: Store,
  { id, path, managed, object_format }: Repository,
  objects: string,
): Promise<generations.RepositoryContent> {
  const copied_at = new Date().toISOString()
  await inspectRepository(path)
  const list = await transfer.listRefs(path)
  const ids = transfer.idsOf(list)
  const reported: string[] = []
  for await (const batch of reportedCommits(store.engine, id)) reported.push(...batch.map(({ sha }) => sha))
  const commits = await transfer.unreachedCommits(path, reported, ids)
  if (!existsSync(objects)) {
    const draft = `${objects}.part`
    await rm(draft, { recursive: true, force: true })
    await createBareRepository(draft, object_format)
    // Also for whoever runs git there: nothing may ever be pruned.
    await appendFile(join(draft, 'config'), '[gc]\n\tauto = 0\n', { flush: true })
    await renameDurably(draft, objects)
  }
  await transfer.removeLeftovers(objects)
  await transfer.fetchObjects(path, objects, [...ids, ...commits])
  await transfer.writeTips(objects, [...ids, ...commits])
  const config = managed ? await readFile(join(path, 'config'), 'utf8') : null
  return { ...list, copied_at, commits, config }
}

async function sizeOf(folder: string): Promise<number> {
  let bytes = 0
  for await (const { path, isFolder } of walk(folder)) if (!isFolder) bytes += (await stat(path)).size
  return bytes
}

import { existsSync } from 'node:fs'
import { appendFile, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { RuleViolation } from '../../domain/rule-violation.ts'
import { openRepository } from '../../git/opened-repository.ts'
import { createBareRepository, inspectRepository } from '../../git/repository.ts'
import { addObjects, idsOf, listRefs, unreachedCommits } from '../../git/transfer.ts'
import { ADMINISTRATOR, BACKUP } from '../../store/audit/audit.ts'
import { StoreUnavailable } from '../../store/engine.ts'
import type { Repository } from '../../store/repositories/repositories.ts'
import type { Store } from '../../store/store.ts'
import { createFolder, renameDurably } from '../../util/durable.ts'
import { walk } from '../../util/walk.ts'
import { reportedCommits } from '../prune.ts'
import { lockFile } from './file-lock.ts'
import type { BackupRows } from './format.ts'
import * as generations from './generations.ts'
import { readBackup } from './read.ts'
import type { OnRows } from './tables.ts'
import { writeBackup } from './write.ts'

/**
 * Backs up the database, and then the repositories, to a folder. The server may be running. However this ends, earlier backups
 * remain complete. Of a repository that cannot be read, the new backup has the content of the previous one.
 *
 * @param keep how many complete backups to keep
 * @param imported whether to include repositories that were imported
 * @returns imported repositories that are not included; those that could not be read, with the reason
 * @throws RuleViolation if another backup to the folder is running; the system's error; StoreUnavailable
 */
export async function backUp(
  store: Store,
  folder: string,
  { keep, imported }: { keep: number; imported: boolean },
  onProgress: OnRows,
): Promise<{ left: string[]; problems: string[] }> {
  const began = new Date()
  await createFolder(join(folder, 'repositories'), 0o700)
  const unlock = lockFile(join(folder, 'lock'))
  if (!unlock) throw new RuleViolation(`another backup to ${folder} is running`)
  try {
    await generations.removeBackups(folder, Number.MAX_SAFE_INTEGER)
    const latest = (await generations.listBackups(folder)).at(-1)
    const earlier = latest ? await generations.readManifest(folder, latest).catch(() => null) : null
    const name = generations.nextName(latest, began)
    const file = generations.databaseOf(folder, name)
    await writeBackup(store.engine, file, onProgress)
    // Repositories that were created since are not in the database.
    const ids = new Set<unknown>()
    const rows = async ({ table, columns, rows }: BackupRows) => {
      if (table === 'repositories') for (const row of rows) ids.add(row[columns.indexOf('id')])
    }
    const { sha256, counts } = await readBackup(file, { rows })
    const found = (await store.repositories.list()).filter(({ id }) => ids.has(id))
    const wanted = found.filter(({ managed }) => managed || imported)
    const repositories: generations.RepositoryCopy[] = []
    for (const [index, row] of wanted.entries()) {
      const { id, createdAt: created_at, objectFormat: object_format, managed } = row
      const from = managed ? null : row.path
      const copy = { id, created_at, name: `${row.owner}/${row.name}`, object_format, imported: from }
      try {
        const content = await copyContent(store, row, generations.objectsOf(folder, copy))
        repositories.push({ ...copy, problem: null, content })
      } catch (error) {
        if (error instanceof StoreUnavailable) throw error
        const problem = error instanceof Error ? error.message : String(error)
        const former = earlier?.repositories.find((it) => it.id === id && it.created_at === created_at)
        // Otherwise it was deleted meanwhile.
        if ((await store.repositories.list()).some((other) => other.id === id))
          repositories.push({ ...copy, problem, content: former?.content ?? null })
      }
      onProgress('repositories', index + 1, wanted.length)
    }
    const database = { sha256, rows: counts }
    const manifest = { created_at: began.toISOString(), database, repositories }
    await generations.writeManifest(folder, name, manifest)
    await generations.removeBackups(folder, keep)
    // A backup of a newer version may name others.
    await generations.removeObjects(folder).catch(() => {})
    const refs = repositories.flatMap(({ content }) => content?.refs ?? []).length
    const problems = repositories.flatMap(({ name, problem }) => (problem ? `${name}: ${problem}` : []))
    const seconds = (Date.now() - began.getTime()) / 1000
    const size = { repositories: repositories.length, refs, bytes: await folderSize(folder), seconds }
    await store.audit.transaction((_db, record) =>
      record({
        by: ADMINISTRATOR,
        object: BACKUP,
        ...(problems.length === 0
          ? { action: 'backup.completed', details: size }
          : { action: 'backup.incomplete', details: { ...size, problems } }),
      }),
    )
    const left = found.filter((row) => !wanted.includes(row)).map(({ owner, name }) => `${owner}/${name}`)
    return { left, problems }
  } finally {
    unlock()
  }
}

/** Lists refs first, and then fetches their ids. So the two agree, whatever is pushed, deleted or collected meanwhile. */
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
  if (!existsSync(objects)) {
    const draft = `${objects}.part`
    await rm(draft, { recursive: true, force: true })
    await createBareRepository(draft, objectFormat)
    // Also for whoever runs git there: nothing may ever be pruned.
    await appendFile(join(draft, 'config'), '[gc]\n\tauto = 0\n', { flush: true })
    await renameDurably(draft, objects)
  }
  const copy = await openRepository({ path: objects, ownerTrust: 'trusted' })
  await addObjects(repository, copy, [...ids, ...commits])
  return {
    ...list,
    copied_at,
    commits,
    config: managed ? await readFile(join(path, 'config'), 'utf8') : null,
  }
}

async function folderSize(folder: string): Promise<number> {
  let bytes = 0
  for await (const { path, isFolder } of walk(folder)) if (!isFolder) bytes += (await stat(path)).size
  return bytes
}

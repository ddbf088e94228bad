import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Refusal } from '../../domain/refusal.ts'
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
  isReadable,
  readRefList,
  unreachedCommits,
  writeTips,
} from '../../git/transfer.ts'
import { StoreUnavailable } from '../../store/engine.ts'
import type { Repository } from '../../store/repositories/repositories.ts'
import type { Store } from '../../store/store.ts'
import { isExpected } from '../../util/expected-errors.ts'
import { reportedCommits } from '../prune.ts'
import * as generations from './generations.ts'
import { findAside, openObjects, packsIn, setAside, type Verification, verifyPack } from './objects.ts'

/** An earlier backup in the folder. */
export interface EarlierBackup {
  name: string
  /** Empty if its manifest cannot be read. */
  repositories: generations.RepositoryCopy[]
  /** Why it cannot be restored. */
  lost?: string
}

/** A backup that is being made. */
export interface BackupRun {
  store: Store
  folder: string
  name: string
  /** Oldest first. */
  earlier: EarlierBackup[]
  verification: Verification
}

/**
 * Copies a repository. One that cannot be read keeps the content that it has in the backup before.
 *
 * @returns null if it was deleted meanwhile
 */
export async function copyRepository(
  run: BackupRun,
  row: Repository,
): Promise<generations.RepositoryCopy | null> {
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
  { store, verification }: BackupRun,
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
 *
 * @throws GitFailed if git cannot write
 */
async function fetchReported(
  from: OpenedRepository,
  to: OpenedRepository,
  reported: readonly string[],
  ids: readonly string[],
): Promise<{ commits: string[]; unreadable: number }> {
  let commits: string[] = []
  try {
    commits = await unreachedCommits(from, reported, ids)
    await fetchObjects(from, to, commits, ids)
    return { commits, unreadable: 0 }
  } catch (error) {
    if (!(error instanceof GitFailed)) throw error
    // git does not say which of the two repositories has failed. The disk of the backup may be full.
    if (commits.length > 0 && (await isReadable(from, commits, ids))) throw error
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
export async function keepEarlier(
  { earlier }: BackupRun,
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

/** Returns the ids of all that a backup of a repository refers to. */
function tipsOf({ commits, ...list }: generations.RepositoryContent): string[] {
  return [...idsOf(list), ...commits]
}

import { setTimeout } from 'node:timers/promises'
import type { CommitLookup } from '../git/commit-lookup.ts'
import { gitDirOf } from '../git/git-dir.ts'
import { inspectRepository, NotARepository, RepositoryUnavailable } from '../git/repository.ts'
import type { Repository } from '../store/repositories.ts'
import type { Store } from '../store/store.ts'
import { nowInSeconds } from '../store/time.ts'

/** Milliseconds: longer than it takes to store a repository's row once its folder is there. */
const SECOND_LOOK = 1_000

/** Told what is done, of how many, where that is known. */
type OnProgress = (what: string, done: number, total: number) => void

export interface CheckOptions {
  /** Also ask git for every commit that something has been reported on. */
  commits: boolean
  /** Remove statuses and other rows whose repository, user or commit is gone. */
  prune: boolean
}

/** What a check found. */
export interface Findings {
  /** What is wrong, a sentence for each. */
  faults: string[]
  /** What was wrong and is no longer, since it was removed. */
  pruned: string[]
  /** Some of what is stored cannot be read: then nothing is removed. */
  damaged: boolean
}

/**
 * Checks what is stored, whether the repositories that it is about are there, and whether there are folders that belong
 * to none.
 *
 * Statuses of a repository whose files cannot be opened are never removed: a disk that is not mounted is no reason to
 * forget what was reported.
 */
export async function checkAll(
  store: Store,
  lookup: CommitLookup,
  { commits, prune }: CheckOptions,
  onProgress: OnProgress,
): Promise<Findings> {
  const files = await store.checkFiles()
  const pruned = prune && files.length === 0 ? await store.removeOrphans() : []
  const rows = await store.faults((table, done, total) => onProgress(table, done, total ?? done))
  const damaged = rows.damaged || files.length > 0
  const findings: Findings = { faults: [...files, ...rows.faults], pruned, damaged }
  // What follows asks the database as if nothing were wrong with it.
  if (damaged) return findings
  const repositories = await store.repositories.list()
  for (const [index, repository] of repositories.entries()) {
    const name = `${repository.owner}/${repository.name}`
    try {
      await inspectRepository(repository.path)
      await gitDirOf(repository)
      if (commits) await checkCommits(store, lookup, repository, prune, findings)
    } catch (error) {
      if (!(error instanceof NotARepository || error instanceof RepositoryUnavailable)) throw error
      findings.faults.push(`repository ${name}: ${error.message}`)
    }
    onProgress('repositories', index + 1, repositories.length)
  }
  for (const folder of await strayFolders(store)) {
    findings.faults.push(
      `folder ${folder}: belongs to no repository; serve it with "repo import", or remove it if it is not needed`,
    )
  }
  return findings
}

/** Looks twice, since a repository that is being created has its folder before its row. */
async function strayFolders({ repositories }: Store): Promise<string[]> {
  const found = await repositories.strayFolders()
  if (found.length === 0) return []
  await setTimeout(SECOND_LOOK)
  const again = await repositories.strayFolders()
  return found.filter((folder) => again.includes(folder))
}

async function checkCommits(
  store: Store,
  lookup: CommitLookup,
  repository: Repository,
  prune: boolean,
  findings: Findings,
): Promise<void> {
  const { id, path, managed, object_format: objectFormat, owner, name } = repository
  for await (const commits of store.reportedCommits(id)) {
    // A report that comes in from now on keeps the statuses of its commit.
    const now = nowInSeconds()
    const known = await Promise.all(
      commits.map(({ sha }) => lookup.has({ id, path, managed, objectFormat }, sha)),
    )
    const gone = commits.filter((_commit, index) => !known[index]).map(({ sha }) => sha)
    const list = prune ? findings.pruned : findings.faults
    list.push(...gone.map((sha) => `commit ${owner}/${name} ${sha}: git has it no longer`))
    if (prune) await store.removeCommits(id, gone, now)
  }
}

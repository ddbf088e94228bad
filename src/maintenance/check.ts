import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { schemas } from '../../generated/schemas.ts'
import { NotARepository, RepositoryUnavailable } from '../git/errors.ts'
import { statIfExists } from '../git/file-state.ts'
import { checkComplete, findDamage } from '../git/integrity.ts'
import type { CommitLookup } from '../git/objects/commit-lookup.ts'
import { openRepository } from '../git/opened-repository.ts'
import { inspectRepository } from '../git/repository.ts'
import { checkWritable } from '../git/repository-health.ts'
import { explainOwnerProblem, findOwnerProblem } from '../git/repository-owner.ts'
import { removeDeletedRepositories } from '../repositories/delete.ts'
import type { Repository } from '../store/repositories/repositories.ts'
import type { Store } from '../store/store.ts'
import { nowInSeconds } from '../store/time.ts'
import type { RepositoryCopy } from './backup/generations.ts'
import { compareWithExpectedRefs } from './expected-refs.ts'
import { createPruning, reportedCommits } from './prune.ts'

/**
 * Milliseconds; longer than the time between creating the folder of a repository and committing its
 * row.
 */
const SECOND_READING = 1_000

/** Receives the number of repositories checked so far, and their total. */
type OnProgress = (done: number, total: number) => void

export interface CheckOptions {
  /**
   * Read every object of each repository, instead of commits and trees alone, and compare refs with
   * events and with `copies`.
   */
  full: boolean
  /** The repositories of a backup. */
  copies?: readonly RepositoryCopy[]
  /** Also look up every commit with statuses in git. */
  commits: boolean
  /** With `commits`: remove the statuses of commits that are no longer in git. */
  prune: boolean
}

/** The result of a check. */
export interface CheckResult {
  /** One sentence for each problem. */
  findings: string[]
  /**
   * One sentence for each imported repository whose configuration accounts can write that an
   * administrator trusts.
   */
  trusted: string[]
  /** One sentence for each problem that was solved by removing rows. */
  pruned: string[]
  /** Whether the database itself is damaged. Then nothing else is checked or removed. */
  damaged: boolean
}

/**
 * Checks the database, the files and objects of each repository, and whether there are folders that
 * belong to no repository. Removes what is left of deleted repositories.
 *
 * Never removes statuses of a repository whose files cannot be opened, because its disk may just
 * not be mounted, or that lacks anything that its refs lead to, because commits may be lost with
 * it.
 */
export async function checkAll(
  store: Store,
  lookup: CommitLookup,
  { full, copies = [], commits, prune }: CheckOptions,
  onProgress: OnProgress,
): Promise<CheckResult> {
  const damage = (await store.engine.checkFiles?.()) ?? []
  // A repository or a status may seem to be missing because of the damage.
  if (damage.length > 0) return { findings: damage, trusted: [], pruned: [], damaged: true }

  const left = await removeDeletedRepositories(store)
  const findings = left.map(({ message }) => `deleted repository: ${message}`)
  const result: CheckResult = { findings, trusted: [], pruned: [], damaged: false }
  if (full) result.findings.push(...(await unknownStates(store)))

  const pruning = prune ? createPruning(store, { no_longer_in_git: true }) : null
  const refs = full ? await compareWithExpectedRefs(store, copies) : null
  const repositories = await store.repositories.list()
  const findingsById = new Map<number, string[]>()
  for (const [index, repository] of repositories.entries()) {
    const name = `${repository.owner}/${repository.name}`
    const found: string[] = []
    findingsById.set(repository.id, found)
    try {
      if (
        !(await reportOwner(repository, name, found, result.trusted)) &&
        repository.ownerTrust === 'checked'
      )
        continue
      await inspectRepository(repository.path)
      const opened = await openRepository(repository)
      await checkWritable(repository.path)
      // Without it git assumes its defaults, and shows refs that were hidden.
      if (repository.managed && !(await statIfExists(join(repository.path, 'config'))))
        found.push(`repository ${name}: ${join(repository.path, 'config')} is missing`)
      await checkComplete(opened)
      const damage = await findDamage(opened, full)
      found.push(...damage.map((text) => `repository ${name}: ${text}`))
      await refs?.add(repository, opened)
      if (commits && damage.length > 0)
        throw new RepositoryUnavailable('its commits are not looked up until it is repaired')
      if (commits) await checkCommits(store, lookup, repository, pruning, prune ? result.pruned : found)
    } catch (error) {
      if (!(error instanceof NotARepository || error instanceof RepositoryUnavailable)) throw error
      found.push(`repository ${name}: ${error.message}`)
    }
    onProgress(index + 1, repositories.length)
  }
  // Those that were deleted meanwhile lack what their deletion has removed.
  for (const { id } of await store.repositories.list()) result.findings.push(...(findingsById.get(id) ?? []))

  if (refs) result.findings.push(...(await refs.findings()))
  for (const folder of await orphanedFolders(store)) {
    result.findings.push(
      `folder ${folder}: belongs to no repository; serve it with "repo import", or delete it if you do not need it`,
    )
  }
  return result
}

/** Finds statuses whose state is none of the contract. */
async function unknownStates({ engine }: Store): Promise<string[]> {
  const rows = await engine.kysely
    .selectFrom('statuses')
    .select((eb) => ['state', eb.fn.countAll().as('rows')])
    .where('state', 'not in', schemas.State.enum)
    .groupBy('state')
    .execute()
  return rows.map(({ state, rows }) => `statuses: rows with the unknown state "${state}": ${rows}`)
}

/** Returns whether no other account can write the configuration of a repository. */
async function reportOwner(
  { managed, path, ownerTrust }: Repository,
  name: string,
  findings: string[],
  trusted: string[],
): Promise<boolean> {
  const problem = managed ? null : await findOwnerProblem(path)
  if (problem === null) return true
  if (ownerTrust === 'trusted') trusted.push(`repository ${name}: ${problem.reason}; trusted (--trust-owner)`)
  else findings.push(`repository ${name}: ${explainOwnerProblem(problem, name, path)}`)
  return false
}

/**
 * Returns folders that belong to no repository. Reads twice, because a new repository has its
 * folder before its row.
 */
async function orphanedFolders({ repositoryFolders }: Store): Promise<string[]> {
  const orphans = await repositoryFolders.orphaned()
  if (orphans.length === 0) return []
  await setTimeout(SECOND_READING)
  const again = await repositoryFolders.orphaned()
  return orphans.filter((folder) => again.includes(folder))
}

async function checkCommits(
  store: Store,
  lookup: CommitLookup,
  repository: Repository,
  prune: ReturnType<typeof createPruning> | null,
  sentences: string[],
): Promise<void> {
  const { id, owner, name } = repository
  for await (const commits of reportedCommits(store.engine, id)) {
    // A commit keeps its statuses if it is reported on from now on.
    const now = nowInSeconds()
    const inGit = await Promise.all(commits.map(({ sha }) => lookup.has(repository, sha)))
    const gone = commits.filter((_commit, index) => !inGit[index]).map(({ sha }) => sha)
    sentences.push(...gone.map((sha) => `commit ${owner}/${name} ${sha}: no longer in git`))
    if (prune) await prune(id, gone, now)
  }
}

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { issueToken } from '../../src/auth/issue-token.ts'
import { openStore, type Store, type StoreOptions } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { git, importCommits } from '../helpers/git.ts'
import { addRepository } from '../helpers/records.ts'
import { CONTEXTS, fill, type PushedRepository, pushesTo } from './fill.ts'

/** Repositories of `alice`, some of whose commits have statuses. */
export interface Fixture {
  /** Options that open the database. */
  options: StoreOptions
  /** The first is used most. */
  tokens: string[]
  /** Ids by name. */
  repositories: Record<string, number>
  /** Commits of `public` by their number of contexts. */
  sized: Map<number, string>
  /** Some of the commits of `public` with 10 contexts each, newest first. */
  stored: string[]
  /** Others, the oldest. Only a large database has some that are not among those. */
  older: string[]
  /** A commit of `private` with 10 contexts. */
  privateCommit: string
  /** Commits of `reports`, the targets of reports. */
  reported: string[]
  /** Commits of `silent` without statuses: a read of one asks git. */
  silent: string[]
  /** Repositories that no scenario reads, with one commit each. */
  untouched: { name: string; sha: string }[]
  /** Size of the table of statuses and its indexes per status. */
  bytesPerStatus: number
}

export const SIZES = [1, 10, 112, 500]
const STORED = 1_000
/** Commits of `public` that were pushed after those. */
const UNREPORTED = 3
const OLDER = 20_000
const REPORTED = 1_000
const SILENT = 1_000
const UNTOUCHED = 30
const TOKENS = 11

/**
 * Creates a database with `size` statuses in `public` and in those that no scenario reads, with the
 * pushes of their commits, and some in the other repositories; and git repositories with the commits
 * that requests name. The other commits exist only in the database.
 *
 * @param databaseUrl a PostgreSQL database; without it SQLite
 */
export async function createFixture(size: number, databaseUrl?: string): Promise<Fixture> {
  const dataDir = mkdtempSync(join(tmpdir(), 'bench-'))
  try {
    return await createIn({ dataDir, ...(databaseUrl && { databaseUrl }) }, size)
  } catch (error) {
    rmSync(dataDir, { recursive: true, force: true })
    throw error
  }
}

async function createIn(options: StoreOptions, size: number): Promise<Fixture> {
  const store = await openStore(options)
  const tokens = await createTokens(store)
  const repositories: Record<string, number> = {}
  const create = async (name: string, visibility: 'public' | 'private', commits: number) => {
    const options = { private: visibility === 'private', commits: 0 }
    const { id, path } = await addRepository(store, `alice/${name}`, options)
    repositories[name] = id
    return { id, path, commits: importCommits(path, commits) }
  }

  const open = await create('public', 'public', SIZES.length + STORED + UNREPORTED)
  const sized = new Map(SIZES.map((contexts, index) => [contexts, open.commits[index] ?? '']))
  for (const [contexts, sha] of sized) await report(store, open.id, sha, contexts)
  const closed = await create('private', 'private', 1)
  const [privateCommit = ''] = closed.commits
  await report(store, closed.id, privateCommit, CONTEXTS)
  const { commits: reported } = await create('reports', 'public', REPORTED)
  const { commits: silent } = await create('silent', 'public', SILENT)
  const stored = open.commits.slice(SIZES.length, -UNREPORTED)
  const pushed: PushedRepository[] = [
    { id: open.id, reported: stored, unreported: open.commits.slice(-UNREPORTED) },
  ]
  git(open.path, 'update-ref', 'refs/heads/main', open.commits.at(-1) ?? '')
  const untouched: Fixture['untouched'] = []
  for (let index = 0; index < UNTOUCHED; index++) {
    const name = `untouched-${index}`
    const { id, path, commits } = await create(name, 'public', 1)
    const [sha = ''] = commits
    git(path, 'update-ref', 'refs/heads/main', sha)
    pushed.push({ id, reported: [], unreported: commits })
    untouched.push({ name, sha })
  }
  await store.close()

  const pushes = pushesTo(pushed, size / CONTEXTS)
  const bytesPerStatus = await fill(options, pushes)
  const ofPublic = pushes.filter(({ repositoryId, isReported }) => repositoryId === open.id && isReported)
  return {
    options,
    tokens,
    repositories,
    sized,
    stored: stored.toReversed().slice(0, size / CONTEXTS),
    older: ofPublic.slice(0, OLDER).map(({ sha }) => sha),
    privateCommit,
    reported,
    silent,
    untouched,
    bytesPerStatus,
  }
}

async function createTokens(store: Store): Promise<string[]> {
  const { id: userId } = await asAdministrator(store).users.create('alice')
  const request = { name: 'bench', scopes: ['repo'], expiresAt: null }
  const issued = Array.from({ length: TOKENS }, () =>
    issueToken(request, (token) => asAdministrator(store).tokens.create({ ...token, userId })),
  )
  return (await Promise.all(issued)).map(({ secret }) => secret)
}

async function report(store: Store, repositoryId: number, sha: string, contexts: number): Promise<void> {
  const reports = Array.from({ length: contexts }, (_, index) =>
    store.statuses.report({
      repositoryId,
      sha,
      context: `ci/check-${index}`,
      state: 'success',
      description: `412 tests passed in ${index} s`,
      target_url: `https://ci.example.org/jobs/${index}`,
    }),
  )
  await Promise.all(reports)
}

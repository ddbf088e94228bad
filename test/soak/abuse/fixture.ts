import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { issueToken } from '../../../src/auth/issue-token.ts'
import { hashPassword } from '../../../src/auth/password.ts'
import { createBareRepository } from '../../../src/git/repository.ts'
import { ADMINISTRATOR } from '../../../src/store/audit/audit.ts'
import { openStore, type Store } from '../../../src/store/store.ts'
import { createCommits, git } from '../../helpers/git.ts'
import { startInstance } from '../../helpers/instance.ts'
import { fillCommit } from '../../helpers/large-commit.ts'
import { PASSWORD } from '../../helpers/page-client.ts'

const COMMITS = 300
const MEGABYTE_COMMITS = 50
/** Contexts of 9.6 KB each. */
const MEGABYTE_CONTEXTS = 110
/** More than the system takes of an answer that nobody reads. */
const LARGE_FILE = 32 * 1024 * 1024
const SMALL_FILE = 1024 * 1024
/** As many as attack at once. */
const WRITERS = 16

/** A server in a process of its own, with users, repositories and commits. */
export interface Fixture {
  url: string
  pid: number
  /** Of `alice`, who means well and may push to `alice/demo`, and of some who do not and may push to `mallory/own`. */
  tokens: { alice: string; writers: string[] }
  /** A commit with few statuses, one with as many and as large ones as a commit may have, and some with answers of 1 MB. */
  commits: { small: string; large: string; megabyte: string[] }
  /** The repository with the large file: where it is, and the newest commit of its branch. */
  large: { path: string; head: string }
  /** An empty folder. */
  folder: string
  stop(): void
}

export async function createFixture(): Promise<Fixture> {
  const folder = mkdtempSync(join(tmpdir(), 'soak-abuse-'))
  const dataDir = join(folder, 'data')
  const store = await openStore({ dataDir })
  const tokens = { alice: (await createUser(store, 'alice')).token, writers: [] as string[] }
  await createUser(store, 'mallory')
  const demo = await createRepository(store, folder, 'alice/demo', SMALL_FILE)
  const large = await createRepository(store, folder, 'alice/large', LARGE_FILE)
  await createRepository(store, folder, 'mallory/own', 0)
  for (let writer = 0; writer < WRITERS; writer++) {
    const { id, token } = await createUser(store, `writer-${writer}`)
    await store.collaborators.set('mallory', 'own', id, 'write')
    tokens.writers.push(token)
  }
  const newest = demo.commits.slice(-30)
  for (const sha of newest) {
    for (let check = 0; check < 5; check++) {
      const report = {
        context: `check ${check}`,
        state: 'success',
        description: null,
        target_url: null,
      } as const
      await store.statuses.report({ ...report, repositoryId: demo.id, sha })
    }
  }
  const [oldest = '', ...older] = demo.commits
  const megabyte = older.slice(0, MEGABYTE_COMMITS)
  await store.close()
  await fillCommit({ dataDir }, { repositoryId: demo.id, sha: oldest })
  for (const sha of megabyte)
    await fillCommit({ dataDir }, { repositoryId: demo.id, sha, contexts: MEGABYTE_CONTEXTS })

  const teardowns: (() => void)[] = []
  const teardown = (end: () => void) => void teardowns.push(end)
  const { url, child } = await startInstance({ teardown }, { dataDir })
  return {
    url,
    pid: child.pid ?? 0,
    tokens,
    commits: { small: newest.at(-1) ?? '', large: oldest, megabyte },
    large: { path: large.path, head: git(large.path, 'rev-parse', 'main') },
    folder,
    stop() {
      for (const end of teardowns) end()
      rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
    },
  }
}

async function createUser(store: Store, name: string): Promise<{ id: number; token: string }> {
  const { id } = await store.users.create(name, { passwordHash: await hashPassword(PASSWORD) })
  const request = { userId: id, name: 'soak', scopes: ['repo'], expiresAt: null }
  return { id, token: (await issueToken(store.tokens, request, ADMINISTRATOR)).secret }
}

/** A public repository with commits, the last of which adds a file of random bytes. Returns the ids of the others. */
async function createRepository(store: Store, folder: string, fullName: string, bytes: number) {
  const [owner = '', name = ''] = fullName.split('/')
  const { path } = await store.repositories.create(
    { owner, name, visibility: 'public', objectFormat: 'sha1' },
    (place) => createBareRepository(place, 'sha1'),
  )
  const { id } = await store.repositories.get(owner, name)
  const commits = createCommits(path, COMMITS)
  const checkout = join(folder, `${owner}-${name}`)
  git(folder, 'clone', '--quiet', path, checkout)
  writeFileSync(join(checkout, 'file'), randomBytes(bytes))
  git(checkout, 'add', 'file')
  git(checkout, 'commit', '--quiet', '--message', 'Add a file')
  git(checkout, 'push', '--quiet', path, 'HEAD:main')
  git(path, 'repack', '-a', '-d', '--quiet')
  return { id, path, commits }
}

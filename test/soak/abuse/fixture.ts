import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Test } from 'tap'
import { hashPassword } from '../../../src/auth/password.ts'
import { rpcText } from '../../git-http/raw.ts'
import { asAdministrator } from '../../helpers/changes.ts'
import { temporaryFolder } from '../../helpers/databases.ts'
import { git } from '../../helpers/git.ts'
import { type Instance, startInstance } from '../../helpers/instance.ts'
import { fillCommit } from '../../helpers/large-commit.ts'
import { PASSWORD } from '../../helpers/page-client.ts'
import { addReport } from '../../helpers/records.ts'
import { startServer, type TestServer } from '../../helpers/server.ts'

const COMMITS = 300
const MEGABYTE_COMMITS = 50
/** Contexts of 9.6 KB each. */
const MEGABYTE_CONTEXTS = 110
/** More than the system takes of an answer that nobody reads. */
const LARGE_FILE = 32 * 1024 * 1024
const SMALL_FILE = 1024 * 1024
/** As many as attack at once. */
const WRITERS = 16

/** The first one as `src/packaging/launcher` has it: otherwise young garbage takes 90 MB more. */
const NODE_OPTIONS = [
  '--max-semi-space-size=16',
  `--import=${resolve(import.meta.dirname, '../../helpers/fixtures/memory-hook.ts')}`,
]

/** A server in a process of its own, with users, repositories and commits. */
export interface Fixture {
  url: string
  pid: number
  /** Returns the MiB of memory in use, without what nothing refers to any more. */
  usedMemory(): Promise<number>
  /**
   * Of `alice`, who means well and may push to `alice/demo`, and of some who do not and may push to
   * `mallory/own`.
   */
  tokens: { alice: string; writers: string[] }
  /**
   * A commit with as many and as large statuses as a commit may have, and some with answers of 1
   * MB.
   */
  commits: { large: string; megabyte: string[] }
  /** URL of the API's read of the commit with few statuses. */
  read: string
  /**
   * The repository with the large file: where it is, and the request, as Latin-1 text, that clones
   * its branch.
   */
  large: { path: string; clone: string }
  /** Serves the same data in another process. */
  start(environment: Record<string, string>): Promise<Instance>
  /** Has a checkout of `alice/demo` with the name `alice-demo`. */
  folder: string
}

/** Returns the path of the API's read of a commit. */
export function statusesOf(sha: string): string {
  return `/api/v1/repos/alice/demo/commits/${sha}/statuses`
}

export async function createFixture(t: Test): Promise<Fixture> {
  const folder = temporaryFolder(t)
  const server = await startServer(t)
  const { store, options } = server
  for (const user of ['alice', 'mallory'])
    await asAdministrator(store).users.create(user, { passwordHash: await hashPassword(PASSWORD) })
  const tokens = { alice: await server.createToken('alice'), writers: [] as string[] }
  const demo = await createRepository(server, folder, 'alice/demo', SMALL_FILE)
  const large = await createRepository(server, folder, 'alice/large', LARGE_FILE)
  await createRepository(server, folder, 'mallory/own', 0)
  for (let writer = 0; writer < WRITERS; writer++) {
    const user = `writer-${writer}`
    await asAdministrator(store).collaborators.set(
      { owner: 'mallory', name: 'own' },
      await server.createUser(user),
      'write',
    )
    tokens.writers.push(await server.createToken(user))
  }
  const newest = demo.commits.slice(-30)
  for (const sha of newest)
    for (let check = 0; check < 5; check++)
      await addReport({ store, repositoryId: demo.id, sha }, `check ${check}`)
  const [oldest = '', ...older] = demo.commits
  const megabyte = older.slice(0, MEGABYTE_COMMITS)
  await fillCommit(options, { repositoryId: demo.id, sha: oldest })
  for (const sha of megabyte)
    await fillCommit(options, { repositoryId: demo.id, sha, contexts: MEGABYTE_CONTEXTS })

  const instance = await startInstance(t, options, {}, NODE_OPTIONS)
  const { url, child } = instance
  const small = newest.at(-1) ?? ''
  const body = `0032want ${git(large.path, 'rev-parse', 'main')}\n00000009done\n`
  return {
    url,
    pid: child.pid ?? 0,
    usedMemory: () => usedMemoryOf(instance),
    tokens,
    commits: { large: oldest, megabyte },
    read: url + statusesOf(small),
    large: { path: large.path, clone: rpcText('alice/large', 'git-upload-pack', { body }) },
    start: (environment) => startInstance(t, options, environment, NODE_OPTIONS),
    folder,
  }
}

async function usedMemoryOf({ child, log }: Instance): Promise<number> {
  const before = log.length
  child.kill('SIGUSR2')
  for (;;) {
    const [, bytes] = log.slice(before).flatMap((line) => /^memory (\d+)$/.exec(line) ?? [])
    if (bytes !== undefined) return Math.round(Number(bytes) / 1024 / 1024)
    await setTimeout(5)
  }
}

/**
 * Creates a public repository with commits, the last of which adds a file of random bytes. Returns
 * the ids of the others.
 */
async function createRepository(server: TestServer, folder: string, fullName: string, bytes: number) {
  const { id, path, commits } = await server.createRepository(fullName, { commits: COMMITS })
  const checkout = join(folder, fullName.replace('/', '-'))
  git(folder, 'clone', '--quiet', path, checkout)
  writeFileSync(join(checkout, 'file'), randomBytes(bytes))
  git(checkout, 'add', 'file')
  git(checkout, 'commit', '--quiet', '--message', 'Add a file')
  git(checkout, 'push', '--quiet', path, 'HEAD:main')
  git(path, 'repack', '-a', '-d', '--quiet')
  return { id, path, commits }
}

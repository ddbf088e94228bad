import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, lstatSync, readdirSync, readFileSync, rmSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import Sqlite from 'better-sqlite3'
import { buildApp } from '../../../src/app.ts'
import { gitEnvironment } from '../../../src/git/environment.ts'
import { CommitLookup } from '../../../src/git/objects/commit-lookup.ts'
import { createFolderSync } from '../../../src/git-http/push/folder-sync.ts'
import { PushRecorder } from '../../../src/git-http/push/record.ts'
import { openSpool } from '../../../src/git-http/spool.ts'
import { listBackups } from '../../../src/maintenance/backup/generations.ts'
import { findBackup, restoreAll } from '../../../src/maintenance/backup/restore.ts'
import type { Repository } from '../../../src/store/repositories/repositories.ts'
import { databaseFile, openStore, type Store } from '../../../src/store/store.ts'
import { basic, commit, git } from '../../git-http/client.ts'
import { asAdministrator } from '../../helpers/changes.ts'
import { listPushes, type PushEvent } from '../../helpers/events.ts'
import { addToken } from '../../helpers/records.ts'
import type { Promised } from './workload.ts'

const run = promisify(execFile)
const quiet = () => {}
const NONE = '0'.repeat(40)
/** The branch that a repository had when it was imported. */
const IMPORTED = 'refs/heads/work'

interface Options {
  /** Also pushes to and reports on repositories, through a server. */
  serves: boolean
  /** Repositories whose content is not looked at. */
  leavesOut: readonly string[]
}

/** What is in a repository. */
interface Content {
  refs: Map<string, string>
  /** Commits of the branch `main`. */
  main: Set<string>
}

/**
 * Starts on disks after power cuts and compares them with what was promised. Equal repositories are
 * read once.
 */
export class Verifier {
  readonly #recorded: string
  readonly #contents = new Map<string, Promise<Content>>()
  readonly #pushedTo = new Set<string>()
  readonly #backups = new Map<string, Promise<Restored>>()
  /** Number of power cuts after which an event was missing, and was recorded by comparing refs. */
  settled = 0

  /**
   * @param recorded where the disks were recorded: imported repositories are stored with that path
   */
  constructor(recorded: string) {
    this.#recorded = recorded
  }

  /**
   * @param disk the folder with all that is left; it is changed
   * @returns what is wrong, a sentence for each
   */
  async verify(disk: string, promised: readonly Promised[], options: Options): Promise<string[]> {
    const problems: string[] = []
    ageLocks(disk)
    await attempt('the database', problems, async () => {
      const dataDir = join(disk, 'data')
      const store = await openStore({ dataDir })
      try {
        moveImports(dataDir, this.#recorded, disk)
        problems.push(...((await store.engine.checkFiles?.()) ?? []))
        await checkRows(store, promised, problems)
        const pushed = await settlePushes(store, problems)
        if (pushed.some(({ details }) => details.interrupted)) this.settled++
        const fresh: Repository[] = []
        for (const repository of await store.repositories.list()) {
          const name = `${repository.owner}/${repository.name}`
          if (options.leavesOut.includes(name)) continue
          await attempt(name, problems, () => this.#checkRepository(name, repository, promised, problems))
          await attempt(name, problems, () => this.#checkEvents(name, repository, pushed, problems))
          const state = digest(repository.path)
          if (options.serves && !this.#pushedTo.has(state)) fresh.push(repository)
          if (options.serves) this.#pushedTo.add(state)
        }
        if (fresh.length > 0) await attempt('the server', problems, () => use(disk, store, fresh))
      } finally {
        await store.close()
      }
    })
    for (const kind of ['backup', 'restore'] as const) {
      const promises = promised.filter((promise) => promise.kind === kind)
      await attempt(`the ${kind}`, problems, () => this.#checkBackup(kind, disk, promises, problems))
    }
    return problems
  }

  async #checkRepository(
    name: string,
    { path }: Repository,
    promised: readonly Promised[],
    problems: string[],
  ): Promise<void> {
    const { refs, main } = await remembered(this.#contents, digest(path), () => readRepository(path))
    for (const promise of promised) {
      if (!('repository' in promise) || promise.repository !== name) continue
      if (promise.kind === 'ref' && (refs.get(promise.ref) ?? null) !== promise.commit)
        problems.push(`${name} ${promise.ref} is ${refs.get(promise.ref)} instead of ${promise.commit}`)
      if (promise.kind === 'main' && !main.has(promise.commit))
        problems.push(`${name} main has lost ${promise.commit}`)
    }
  }

  /** Compares what events say about refs with the refs. */
  async #checkEvents(
    name: string,
    { path }: Repository,
    pushed: readonly PushEvent[],
    problems: string[],
  ): Promise<void> {
    const { refs } = await remembered(this.#contents, digest(path), () => readRepository(path))
    const ids = new Map<string, string>()
    for (const { object, details } of pushed) {
      if (object !== name) continue
      for (const update of details.updates) ids.set(update.ref, update.new)
      for (const { ref } of details.unknown ?? [])
        problems.push(`${name} ${ref}: nobody knows whether a push updated it`)
    }
    for (const ref of new Set([...refs.keys(), ...ids.keys()]))
      if (ref !== IMPORTED && (refs.get(ref) ?? NONE) !== (ids.get(ref) ?? NONE))
        problems.push(`${name} ${ref} is ${refs.get(ref)}, but the last event says ${ids.get(ref)}`)
  }

  /**
   * Restores a backup, or looks at what a restore has left: everything, or nothing that a server
   * would start with.
   */
  async #checkBackup(
    kind: 'backup' | 'restore',
    disk: string,
    promises: readonly Promised[],
    problems: string[],
  ): Promise<void> {
    const place = join(disk, 'place')
    const promise = promises.at(-1)
    if (kind === 'restore' && !promise && !existsSync(databaseFile(place))) return
    if (kind === 'backup' && !promise) return
    const folder = kind === 'restore' ? place : join(disk, 'backups')
    const count = promises.length
    const found = await remembered(this.#backups, `${count} ${digest(folder)}`, () =>
      kind === 'restore' ? readPlace(folder) : readBackup(folder, count, join(disk, 'restored')),
    )
    if (promise?.kind !== kind) return
    for (const description of promise.descriptions)
      if (!found.descriptions.has(description)) problems.push(`${description} is not in the ${kind}`)
    for (const [name, refs] of Object.entries(promise.refs))
      if (found.refs.get(name) !== refs) problems.push(`${name} is not the same in the ${kind}`)
  }
}

async function attempt(what: string, problems: string[], work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    problems.push(`${what}: ${error}`.trim())
  }
}

/**
 * Settles the pushes that the power cut has interrupted, as a server does once they are overdue.
 * Returns the events of all.
 */
async function settlePushes(store: Store, problems: string[]): Promise<PushEvent[]> {
  const recorder = new PushRecorder({
    pushes: store.pushes,
    rules: store.rules,
    overdue: 0,
    presence: null,
    syncFolders: createFolderSync(),
    onError: (error) => problems.push(`a push is not settled: ${error}`),
  })
  await recorder.close()
  if ((await store.pushes.listOpen(0)).length > 0) problems.push('a push is still open')
  return await listPushes(store)
}

/** What failed is made again: only the first who asks learns why. */
async function remembered<Value>(
  known: Map<string, Promise<Value>>,
  key: string,
  make: () => Promise<Value>,
): Promise<Value> {
  const value = known.get(key) ?? make()
  known.set(key, value)
  return value
}

/** Names and content of a file, or of a folder with all below it. */
function digest(path: string): string {
  const hash = createHash('sha1')
  const names = lstatSync(path).isDirectory()
    ? readdirSync(path, { recursive: true, encoding: 'utf8' })
    : ['']
  for (const name of names.sort()) {
    const file = join(path, name)
    hash.update(`${name}\0`)
    if (lstatSync(file).isFile()) hash.update(readFileSync(file))
  }
  return hash.digest('hex')
}

/** Lock files that a power cut leaves behind are older than the last start of the machine. */
function ageLocks(disk: string): void {
  for (const entry of readdirSync(disk, { recursive: true, withFileTypes: true })) {
    if (/\.(lock|new)$/.test(entry.name)) utimesSync(join(entry.parentPath, entry.name), 1, 1)
  }
}

function moveImports(dataDir: string, from: string, to: string): void {
  const database = new Sqlite(join(dataDir, 'commit-status.db'))
  database.prepare('update repositories set path = replace(path, ?, ?)').run(from, to)
  database.close()
}

/** Checks a repository and clones it. */
async function readRepository(path: string): Promise<Content> {
  const options = { cwd: '/', env: gitEnvironment() }
  await run('git', ['--git-dir', path, 'fsck', '--full', '--strict', '--no-dangling'], options)
  const clone = `${path}.clone`
  await run('git', ['clone', '--quiet', '--mirror', '--no-local', path, clone], {
    ...options,
    env: { ...options.env, GIT_ALLOW_PROTOCOL: 'file' },
  })
  const list = await git(clone, ['for-each-ref', '--format=%(refname) %(objectname)'])
  const lines = list.split('\n').filter((line) => line !== '')
  const refs = new Map(lines.map((line): [string, string] => [line.slice(0, -41), line.slice(-40)]))
  const main = refs.has('refs/heads/main') ? await git(clone, ['rev-list', 'refs/heads/main']) : ''
  rmSync(clone, { recursive: true })
  return { refs, main: new Set(main.split('\n')) }
}

async function checkRows(store: Store, promised: readonly Promised[], problems: string[]): Promise<void> {
  for (const promise of promised) {
    if (promise.kind === 'user' && !(await store.users.find(promise.name)))
      problems.push(`there is no user ${promise.name}`)
    if (promise.kind !== 'repository' && promise.kind !== 'report') continue
    const fullName = promise.kind === 'report' ? promise.repository : promise.name
    const [owner = '', name = ''] = fullName.split('/')
    const repository = await store.repositories.find(owner, name)
    const statuses =
      repository && promise.kind === 'report' ? await store.statuses.list(repository.id, promise.sha) : []
    if (!repository) problems.push(`there is no repository ${fullName}`)
    else if (
      promise.kind === 'report' &&
      !statuses.some(({ description }) => description === promise.description)
    )
      problems.push(`${promise.description} is gone`)
  }
}

/**
 * What is in a service: descriptions of statuses, and the refs of repositories by the name of their
 * folder.
 */
interface Restored {
  descriptions: Set<unknown>
  refs: Map<string, string>
}

/**
 * Restores the last of `count` backups, and those that were complete before they were acknowledged.
 */
async function readBackup(folder: string, count: number, place: string): Promise<Restored> {
  const [name = 'the last', ...others] = (await listBackups(folder)).slice(count - 1)
  for (const backup of [name, ...others])
    await restoreAll({ dataDir: `${place}-${backup}` }, await findBackup(folder, backup), quiet)
  return readPlace(`${place}-${name}`)
}

async function readPlace(dataDir: string): Promise<Restored> {
  const database = new Sqlite(databaseFile(dataDir))
  const descriptions = new Set(database.prepare('select description from statuses').pluck().all())
  const ids = database.prepare('select id from repositories where path is null').pluck().all()
  database.close()
  const refs = new Map<string, string>()
  for (const name of ids.map((id) => `${id}.git`)) {
    const path = join(dataDir, 'repositories', name)
    await git(path, ['rev-list', '--objects', '--quiet', '--all'])
    refs.set(name, await git(path, ['for-each-ref']))
  }
  return { descriptions, refs }
}

/** Pushes to `main` of repositories and reports on it. */
async function use(disk: string, store: Store, repositories: readonly Repository[]): Promise<void> {
  const lookup = new CommitLookup()
  // The replay itself blocks the event loop, which is no reason to refuse requests.
  const app = await buildApp({
    store,
    lookup,
    spool: await openSpool(join(disk, 'data'), 0),
    maxEventLoopDelay: 60_000,
  })
  try {
    const url = await app.listen({ host: '127.0.0.1', port: 0 })
    const user =
      (await store.users.find('owner')) ??
      (await asAdministrator(store).users.create('owner', { ownExisting: true }))
    const { secret: token } = await addToken(store, user.id)
    for (const { id, owner, name } of repositories) {
      const folder = join(disk, `work-${id}`)
      await git(disk, ['clone', '--quiet', `${url}/${owner}/${name}.git`, folder])
      await git(folder, ['checkout', '--quiet', '-B', 'main', 'origin/main']).catch(quiet)
      const sha = await commit(folder)
      const authorization = basic('x', token)
      await git(folder, ['push', '--quiet', 'origin', 'HEAD:refs/heads/main'], { authorization })
      const answer = await fetch(`${url}/api/v1/repos/${owner}/${name}/statuses/${sha}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: '{"state":"success"}',
      })
      if (answer.status !== 201) throw new Error(`a report on ${owner}/${name} is answered ${answer.status}`)
    }
  } finally {
    await app.close()
    await lookup.close()
  }
}

import { createHash, randomBytes } from 'node:crypto'
import { type BigIntStats, constants, rmSync } from 'node:fs'
import { lstat, mkdir, mkdtemp, open, readlink, rename, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  checkSettings,
  formatSettings,
  isInclude,
  readSettings,
  type Setting,
  textOf,
} from './config-check.ts'
import { unavailable } from './repository-health.ts'

/** Where a repository is. */
export interface RepositoryFolder {
  /** Its git directory: absolute, without symbolic links. */
  path: string
  /** True if it is in the server's own folder, where no other account can write. Otherwise it was imported. */
  managed?: boolean
}

/*
 * The owner of an imported repository can change its files at any time, also between a check of the configuration and the
 * moment when git reads it. So git never reads that configuration. It runs on a view of the repository instead, a folder
 * of this process that only its account can enter:
 *
 *   config                 the checked settings, written by the server
 *   HEAD                   a copy, because git accepts no link here
 *   objects, refs, …       links into the repository
 *
 * A view is made again when the configuration or HEAD has changed. One `stat` of each file, before every call of git,
 * tells. Hooks are not linked.
 */

/** Everything in a git directory that serving reads or writes, and everything that a garbage collection starts from. */
const LINKS = [
  ...['objects', 'refs', 'packed-refs', 'reftable', 'shallow', 'info', 'logs', 'worktrees', 'rr-cache'],
  ...['index', 'rebase-merge', 'rebase-apply'],
]
/** Milliseconds. Longer than the resolution of time stamps on any file system. */
const TIMESTAMP_RESOLUTION = 2_000
/** Milliseconds after which a view is made again: its files never get so old that something removes them from /tmp. */
const MAX_AGE = 24 * 60 * 60 * 1000
/** Most views in memory. */
const MAX_VIEWS = 10_000
/** Most files of one configuration. */
const MAX_FILES = 100
const MAX_HEAD = 4096
const MISSING = 'missing'
/** Without a folder `logs` in the repository git would try to create it where the link is, and refuse the push. */
const NO_LOGS = '[core]\n\tlogallrefupdates = false\n'

interface View {
  gitDir: string
  /** By file, also those that do not exist. */
  stamps: ReadonlyMap<string, string>
  /** False if a file changed shortly before it was read: the next change may get the same time stamp. */
  reusable: boolean
  madeAt: number
}

const views = new Map<string, Promise<View>>()
let viewsFolder: Promise<string> | undefined

/**
 * Returns the git directory to run git on. For an imported repository it has the configuration that was checked, and the
 * repository's owner cannot change it.
 *
 * @throws RepositoryUnavailable when files cannot be opened, or when the configuration is refused; then it names the keys
 */
export async function gitDirOf({ path, managed = false }: RepositoryFolder): Promise<string> {
  if (managed) return path
  const { gitDir } = await currentView(path).catch((error) => {
    throw unavailable(path, error)
  })
  return gitDir
}

async function currentView(path: string): Promise<View> {
  const known = views.get(path)
  if (known !== undefined) {
    const view = await known.catch(() => undefined)
    if (view !== undefined && (await isCurrent(view))) return view
  }
  const latest = views.get(path)
  // Another request has noticed the change and is already making a view.
  if (latest !== undefined && latest !== known) return latest
  if (views.size >= MAX_VIEWS) views.clear()
  const next = makeView(path)
  views.set(path, next)
  next.catch(() => {
    if (views.get(path) === next) views.delete(path)
  })
  return next
}

async function isCurrent({ stamps, reusable, madeAt }: View): Promise<boolean> {
  if (!reusable || performance.now() - madeAt > MAX_AGE) return false
  const same = await Promise.all(
    Array.from(stamps, async ([file, stamp]) => stampOf(await statOf(file)) === stamp),
  )
  return same.every(Boolean)
}

async function makeView(path: string): Promise<View> {
  // Before anything is read. A file with a later time stamp may have changed after it was read.
  const settledBefore = BigInt(Date.now() - TIMESTAMP_RESOLUTION) * 1_000_000n
  const config = await statRegular(path, 'config')
  await statRegular(path, 'config.worktree')
  const head = await readHead(path)
  const settings = await readSettings(path)
  if (settings.length === 0 && (config?.size ?? 0n) > 0n)
    throw unavailable(path, 'git does not take its configuration')
  checkSettings(path, settings)

  const watched = ['config', 'config.worktree', 'HEAD', 'logs'].map((name) => join(path, name))
  const files = new Set([...watched, ...filesOf(settings)])
  if (files.size > MAX_FILES) throw unavailable(path, `its configuration has over ${MAX_FILES} files`)
  const stamps = new Map<string, string>()
  let reusable = true
  for (const file of files) {
    const stats = await statOf(file)
    stamps.set(file, stampOf(stats))
    if (stats !== null && stats.ctimeNs > settledBefore) reusable = false
  }

  const gitDir = join(await folderOfViews(), createHash('sha256').update(path).digest('hex').slice(0, 32))
  await mkdir(gitDir, { recursive: true })
  for (const name of LINKS) await put(gitDir, name, (draft) => symlink(join(path, name), draft))
  const hasLogs = stamps.get(join(path, 'logs')) !== MISSING
  const text = formatSettings(settings.filter(isWanted)) + (hasLogs ? '' : NO_LOGS)
  await put(gitDir, 'HEAD', (draft) => writeFile(draft, head))
  await put(gitDir, 'config', (draft) => writeFile(draft, text, 'latin1'))
  stamps.set(join(gitDir, 'config'), stampOf(await statOf(join(gitDir, 'config'))))
  return { gitDir, stamps, reusable, madeAt: performance.now() }
}

/**
 * Whether a setting belongs into a view. Those of included files and of `config.worktree` are in the list themselves. The
 * path of a work tree may be relative to the repository, and is not needed.
 */
function isWanted({ key }: Setting): boolean {
  return !isInclude(key) && key !== 'extensions.worktreeconfig' && key !== 'core.worktree'
}

/** Returns the files that hold settings, and those that git would include if they existed or their condition held. */
function filesOf(settings: readonly Setting[]): string[] {
  return settings.flatMap(({ key, value, file }) => {
    // Relative to a home folder, which git finds none of here, or to git's own folder.
    if (!isInclude(key) || value === null || /^[~%]/.test(value)) return [file]
    const included = textOf(value)
    return [file, included.startsWith('/') ? included : file.slice(0, file.lastIndexOf('/') + 1) + included]
  })
}

/** Replaces a file or link of a view atomically. */
async function put(gitDir: string, name: string, write: (draft: string) => Promise<void>): Promise<void> {
  const draft = join(gitDir, `${name}.${randomBytes(6).toString('hex')}`)
  await write(draft)
  await rename(draft, join(gitDir, name))
}

/** Returns a folder that no other account can enter. It is removed when the process ends. */
async function folderOfViews(): Promise<string> {
  const folder = await viewsFolder?.catch(() => '')
  const stats = folder ? await lstat(folder).catch(() => null) : null
  // If something removed it from /tmp, another account may have taken its name.
  if (folder && stats?.isDirectory() && stats.uid === process.geteuid?.()) return folder
  viewsFolder = mkdtemp(join(tmpdir(), 'commit-status-git-'))
  const created = await viewsFolder
  process.once('exit', () => rmSync(created, { recursive: true, force: true }))
  return created
}

/** Reads HEAD. Early versions of git made it a symbolic link. */
async function readHead(path: string): Promise<Buffer> {
  const file = join(path, 'HEAD')
  const target = await readlink(file).catch(() => '')
  if (target.startsWith('refs/')) return Buffer.from(`ref: ${target}\n`)
  // Does not wait for the other end if the owner has put a pipe there.
  const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    if (!(await handle.stat()).isFile()) throw unavailable(path, `${file} is not a regular file`)
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(MAX_HEAD))
    return buffer.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}

/** Returns null if the file does not exist. @throws RepositoryUnavailable if it is a pipe or the like */
async function statRegular(path: string, name: string): Promise<BigIntStats | null> {
  const stats = await statOf(join(path, name))
  if (stats !== null && !stats.isFile()) throw unavailable(path, `${join(path, name)} is not a regular file`)
  return stats
}

/** Returns null if the file does not exist. */
async function statOf(file: string): Promise<BigIntStats | null> {
  try {
    return await stat(file, { bigint: true })
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    throw error
  }
}

function stampOf(stats: BigIntStats | null): string {
  if (stats === null) return MISSING
  const { dev, ino, size, mtimeNs, ctimeNs } = stats
  return [dev, ino, size, mtimeNs, ctimeNs].join(':')
}

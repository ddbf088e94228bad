import { createHash, randomBytes } from 'node:crypto'
import { type BigIntStats, constants } from 'node:fs'
import { mkdir, open, readlink, rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { checkSettings, formatSettings, isInclude, readSettings, type Setting } from './config-check.ts'
import { fileState, isSettled, statIfExists } from './file-state.ts'
import { openPrivateFolder } from './private-folder.ts'
import { unavailable } from './repository-health.ts'
import { decodeLatin1 } from './run-git.ts'

/** The location of a repository. */
export interface RepositoryFolder {
  /** Its git directory: absolute, without symbolic links. */
  path: string
  /** True if it is in the server's own folder, where no other account can write. Imported repositories are not. */
  managed?: boolean
}

/*
 * The owner of an imported repository can change its files at any time, also between the check of its configuration and the
 * moment when git reads it. So git never reads that configuration. It is run on a view of the repository, a folder of this
 * process that no other account can enter:
 *
 *   config                 the checked settings, written by the server
 *   HEAD                   a copy, because git does not follow such a link
 *   objects, refs, …       links to the repository
 *
 * Before every call of git, one `stat` of each file detects changes of the configuration or HEAD; then the view is rebuilt.
 * Hooks are not linked.
 */

/** Files and folders that git reads or writes for the server, including those that a garbage collection starts from. */
const LINKS = [
  ...['objects', 'refs', 'packed-refs', 'reftable', 'shallow', 'info', 'logs', 'worktrees', 'rr-cache'],
  ...['index', 'rebase-merge', 'rebase-apply'],
]
/** Milliseconds after which a view is rebuilt, so that its files never get old enough to be cleaned from /tmp. */
const MAX_AGE = 24 * 60 * 60 * 1000
/** Maximum number of views in memory. */
const MAX_VIEWS = 10_000
/** Maximum number of files of one configuration. */
const MAX_FILES = 100
const MAX_HEAD = 4096
/** Added if the repository has no folder `logs`: git could not create it at the link and would refuse the push. */
const NO_LOGS = '[core]\n\tlogallrefupdates = false\n'

interface View {
  gitDir: string
  /** State of each file that was read, including missing files. */
  stamps: ReadonlyMap<string, string>
  /** False if a file changed shortly before it was read, because the next change may get the same timestamp. */
  reusable: boolean
  madeAt: number
}

const views = new Map<string, Promise<View>>()

/**
 * Returns the git directory to run git on. For an imported repository it is a view with the checked configuration, which
 * the repository's owner cannot change.
 *
 * @throws RepositoryUnavailable if files cannot be opened, or if the configuration is refused; then it names the keys
 */
export async function gitDirOf({ path, managed = false }: RepositoryFolder): Promise<string> {
  if (managed) return path
  const { gitDir } = await currentView(path).catch((error: unknown) => {
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
  // Another request has detected the change and is rebuilding the view.
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
    Array.from(stamps, async ([file, stamp]) => (await fileState(file)).stamp === stamp),
  )
  return same.every(Boolean)
}

async function makeView(path: string): Promise<View> {
  // Taken before anything is read: a file with a later timestamp may have changed after it was read.
  const startedAt = Date.now()
  const config = await statRegular(path, 'config')
  await statRegular(path, 'config.worktree')
  const head = await copyHead(path)
  const settings = await readSettings(path)
  if (settings.length === 0 && (config?.size ?? 0n) > 0n)
    throw unavailable(path, 'git does not accept its configuration')
  checkSettings(path, settings)

  const watched = ['config', 'config.worktree', 'HEAD', 'logs'].map((name) => join(path, name))
  const files = new Set([...watched, ...filesOf(settings)])
  if (files.size > MAX_FILES) throw unavailable(path, `its configuration has over ${MAX_FILES} files`)
  const stamps = new Map<string, string>()
  let reusable = true
  for (const file of files) {
    const { stamp, changedAt } = await fileState(file)
    stamps.set(file, stamp)
    if (!isSettled(changedAt, startedAt)) reusable = false
  }

  const gitDir = join(await openPrivateFolder(), createHash('sha256').update(path).digest('hex').slice(0, 32))
  await mkdir(gitDir, { recursive: true })
  for (const name of LINKS) await put(gitDir, name, (draft) => symlink(join(path, name), draft))
  const hasLogs = (await statIfExists(join(path, 'logs'))) !== null
  const text = formatSettings(settings.filter(isWanted)) + (hasLogs ? '' : NO_LOGS)
  await put(gitDir, 'HEAD', (draft) => writeFile(draft, head))
  await put(gitDir, 'config', (draft) => writeFile(draft, text, 'latin1'))
  // A program that cleans /tmp may remove single files and links of the view, which changes its folder.
  for (const file of [gitDir, join(gitDir, 'config')]) stamps.set(file, (await fileState(file)).stamp)
  return { gitDir, stamps, reusable, madeAt: performance.now() }
}

/**
 * Returns whether a setting is copied to a view. The list already contains the settings of included files and of
 * `config.worktree`. The path of a work tree may be relative to the repository and is not needed.
 */
function isWanted({ key }: Setting): boolean {
  return !isInclude(key) && key !== 'extensions.worktreeconfig' && key !== 'core.worktree'
}

/** Returns the files that contain settings, and those that git would include if they existed or their condition was true. */
function filesOf(settings: readonly Setting[]): string[] {
  return settings.flatMap(({ key, value, file }) => {
    // Relative to a home folder, which git does not find here, or to git's own folder.
    if (!isInclude(key) || value === null || /^[~%]/.test(value)) return [file]
    const included = decodeLatin1(value)
    return [file, included.startsWith('/') ? included : file.slice(0, file.lastIndexOf('/') + 1) + included]
  })
}

/** Replaces a file or link of a view atomically. */
async function put(gitDir: string, name: string, write: (draft: string) => Promise<void>): Promise<void> {
  const draft = join(gitDir, `${name}.${randomBytes(6).toString('hex')}`)
  await write(draft)
  await rename(draft, join(gitDir, name))
}

/** Returns the content of HEAD for a view. Early versions of git made it a symbolic link. */
async function copyHead(path: string): Promise<Buffer> {
  const file = join(path, 'HEAD')
  const target = await readlink(file).catch(() => '')
  if (target.startsWith('refs/')) return Buffer.from(`ref: ${target}\n`)
  // Does not block if the owner has replaced the file by a pipe.
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
  const stats = await statIfExists(join(path, name))
  if (stats !== null && !stats.isFile()) throw unavailable(path, `${join(path, name)} is not a regular file`)
  return stats
}

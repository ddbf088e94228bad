import { execFile } from 'node:child_process'
import type { BigIntStats } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { limitConcurrency } from '../util/limit-concurrency.ts'
import { isAllowedKey } from './config-allowlist.ts'
import { gitEnvironment } from './environment.ts'
import { RepositoryUnavailable, unavailable } from './openable.ts'

/** The git directory of a repository. */
export interface RepositoryFolder {
  /** Absolute, without symbolic links. */
  path: string
  /** True if it is in the server's own folder, where no other account can write. Otherwise it was imported. */
  managed?: boolean
}

/** The result of reading a repository's configuration. It is current until the `stat` of one of its files changes. */
interface Inspection {
  /** By file, also those that do not exist. */
  stamps: ReadonlyMap<string, string>
  refused: readonly string[]
  /** False if a file changed shortly before it was read: the next change may get the same time stamp. */
  reusable: boolean
}

const run = promisify(execFile)
const inTurn = limitConcurrency(16)
const OPTIONS = { cwd: '/', timeout: 10_000, maxBuffer: 16 * 1024 * 1024, killSignal: 'SIGKILL' } as const
/** Most inspections in memory. */
const MAX_INSPECTIONS = 10_000
/** Most files of one configuration. */
const MAX_FILES = 100
/** Milliseconds. Longer than the resolution of time stamps on any file system. */
const TIMESTAMP_RESOLUTION = 2_000
const MAX_KEYS_IN_MESSAGE = 5
const MISSING = 'missing'

const inspections = new Map<string, Promise<Inspection>>()

/**
 * Checks that an imported repository's own configuration cannot make git run a program or read a file that the
 * repository's owner chose: `isAllowedKey` must know every key. Costs one `stat` for each file of the configuration
 * while none of them changes.
 *
 * Included files count whether or not their condition holds, and so does `config.worktree`.
 *
 * An owner who changes the configuration between this check and the moment when git reads it is not stopped by it.
 * `FIXED_SETTINGS` still win then.
 *
 * @throws RepositoryUnavailable naming the keys and their files
 */
export async function checkConfig({ path, managed = false }: RepositoryFolder): Promise<void> {
  if (managed) return
  const { refused } = await currentInspection(path).catch((error) => {
    throw unavailable(path, error)
  })
  if (refused.length === 0) return
  const named = refused.slice(0, MAX_KEYS_IN_MESSAGE).join(', ')
  const others = refused.length - MAX_KEYS_IN_MESSAGE
  throw new RepositoryUnavailable(
    `the repository ${path} is not served because its configuration sets ${named}${others > 0 ? ` and ${others} more` : ''}: ` +
      'keys that let git run programs or read other files, or that are unknown. ' +
      'Remove them: git config --file FILE --unset-all KEY',
  )
}

async function currentInspection(path: string): Promise<Inspection> {
  const known = inspections.get(path)
  if (known !== undefined) {
    const inspection = await known
    if (inspection.reusable && (await isUnchanged(inspection))) return inspection
  }
  const latest = inspections.get(path)
  // Another request found the same and has already started over.
  if (latest !== undefined && latest !== known) return latest
  if (inspections.size >= MAX_INSPECTIONS) inspections.clear()
  const next = inspect(path)
  inspections.set(path, next)
  next.catch(() => {
    if (inspections.get(path) === next) inspections.delete(path)
  })
  return next
}

async function isUnchanged({ stamps }: Inspection): Promise<boolean> {
  const same = await Promise.all(
    Array.from(stamps, async ([file, stamp]) => stampOf(await statOf(file)) === stamp),
  )
  return same.every(Boolean)
}

async function inspect(path: string): Promise<Inspection> {
  const settledBefore = BigInt(Date.now() - TIMESTAMP_RESOLUTION) * 1_000_000n
  const stamps = new Map<string, string>()
  const refused: string[] = []
  let reusable = true
  // With such a file, git takes the configuration and everything else from another folder.
  const redirect = join(path, 'commondir')
  if ((await statOf(redirect)) !== null) throw unavailable(path, `${redirect} leads to another repository`)
  stamps.set(redirect, MISSING)

  const files = [join(path, 'config'), join(path, 'config.worktree')]
  for (const file of files) {
    if (stamps.has(file)) continue
    if (stamps.size >= MAX_FILES) throw unavailable(path, `its configuration has over ${MAX_FILES} files`)
    // Before the file is read, so that a change in the meantime is noticed.
    const stats = await statOf(file)
    stamps.set(file, stampOf(stats))
    if (stats === null) continue
    if (!stats.isFile()) throw unavailable(path, `${file} is not a regular file`)
    if (stats.ctimeNs > settledBefore) reusable = false
    for (const { key, value } of await readConfig(path, file)) {
      if (isInclude(key)) files.push(resolveInclude(path, file, value))
      else if (!isAllowedKey(key)) refused.push(`${JSON.stringify(key)} in ${file}`)
    }
  }
  return { stamps, refused, reusable }
}

/** Reads the entries of one file, without those that it includes. Only git knows its whole syntax. */
async function readConfig(path: string, file: string): Promise<{ key: string; value: string | null }[]> {
  const args = ['config', '--file', file, '--no-includes', '--null', '--list']
  const { stdout } = await inTurn(() => run('git', args, { ...OPTIONS, env: gitEnvironment(path) }))
  return stdout
    .split('\0')
    .slice(0, -1)
    .map((entry) => {
      const end = entry.indexOf('\n')
      if (end === -1) return { key: entry, value: null }
      return { key: entry.slice(0, end), value: entry.slice(end + 1) }
    })
}

function isInclude(key: string): boolean {
  return key === 'include.path' || (key.startsWith('includeif.') && key.endsWith('.path'))
}

/**
 * Returns the path that git includes, which need not exist.
 *
 * @throws RepositoryUnavailable when only git can tell
 */
function resolveInclude(path: string, from: string, value: string | null): string {
  const named = value?.replace(/^~\//, `${gitEnvironment(path).HOME}/`)
  // Home folders, git's own folder, prefixes of later versions, bytes that are not UTF-8.
  if (!named || /^[~%:]|\ufffd/.test(named))
    throw unavailable(path, `${from} includes ${JSON.stringify(value)}, which is not a plain path`)
  return named.startsWith('/') ? named : from.slice(0, from.lastIndexOf('/') + 1) + named
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

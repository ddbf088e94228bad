import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { plain } from '../terminal.ts'
import { UsageError } from '../usage-error.ts'
import type { ProcessIdentity } from './processes.ts'

/** What is written down of a job before it claims a commit, so that the next worker can finish it. */
export interface JobRecord {
  owner: string
  repo: string
  sha: string
  branch: string
  context: string
  run: string
  /** Missing until the command was started. */
  command?: ProcessIdentity | undefined
}

/** The folder of a worker: `cache` of repositories, and one folder for each job below `jobs`. */
export interface WorkFolder {
  /** Folder of the cache of a repository. */
  cacheOf(owner: string, repo: string): string
  /** Folder of the checkout of a run. */
  checkoutOf(run: string): string
  write(record: JobRecord): void
  /** Writes down certificates of CAs, in PEM form, and returns the file. */
  writeCertificates(certificates: readonly string[]): string
  /** Returns what a killed worker has left. */
  leftJobs(): JobRecord[]
  /** Removes the checkout of a run. Returns why that failed. */
  removeCheckout(run: string): string | undefined
  /** Removes a job with its checkout. Returns why that failed. */
  remove(run: string): string | undefined
  /** Lets other workers use the folder. */
  close(): void
}

const RECORD = 'job.json'
/** Exit code of flock(1) if another process has the lock. */
const LOCKED = 1

/**
 * Opens the folder of a worker, which is created, and locks it until it is closed, or this process ends.
 *
 * @throws UsageError if another worker uses it
 */
export function openFolder(path: string): WorkFolder {
  const jobs = join(path, 'jobs')
  let descriptor: number
  try {
    createFolder(jobs, 0o700)
    descriptor = lock(join(path, 'lock'))
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new UsageError(
      `--folder: ${path} cannot be used: ${error instanceof Error ? error.message : error}`,
    )
  }
  return {
    cacheOf: (owner, repo) => join(path, 'cache', `${owner}+${repo}.git`.toLowerCase()),
    checkoutOf: (run) => join(jobs, run, 'checkout'),
    write(record) {
      const folder = join(jobs, record.run)
      mkdirSync(folder, { recursive: true, mode: 0o700 })
      writeFileSync(join(folder, 'new'), JSON.stringify(record))
      renameSync(join(folder, 'new'), join(folder, RECORD))
    },
    writeCertificates(certificates) {
      const file = join(path, 'ca.pem')
      writeFileSync(file, certificates.join('\n'))
      return file
    },
    leftJobs() {
      const records: JobRecord[] = []
      for (const run of readdirSync(jobs)) {
        try {
          // Only this program writes here.
          records.push(JSON.parse(readFileSync(join(jobs, run, RECORD), 'utf8')) as JobRecord)
        } catch {
          removeAll(join(jobs, run))
        }
      }
      return records
    },
    removeCheckout: (run) => removeAll(join(jobs, run, 'checkout')),
    remove: (run) => removeAll(join(jobs, run)),
    close: () => closeSync(descriptor),
  }
}

/**
 * Creates a folder and those above it. `mkdirSync` with `recursive` never returns below a folder that
 * exists and says that nothing in it does, such as `/proc/1`.
 */
export function createFolder(path: string, mode?: number): void {
  const exists = () => statSync(path, { throwIfNoEntry: false })?.isDirectory()
  if (exists()) return
  createFolder(dirname(path), mode)
  try {
    mkdirSync(path, mode)
  } catch (error) {
    // Another worker may have created it meanwhile.
    if (!exists()) throw error
  }
}

/**
 * flock(2) belongs to the open file, which flock(1) inherits: so the lock lasts until the descriptor is
 * closed, or this process ends, in whatever way, and no program that is started has it, since Node opens files
 * with O_CLOEXEC.
 *
 * @returns the descriptor
 */
function lock(file: string): number {
  const descriptor = openSync(file, 'a', 0o600)
  const { error, status } = spawnSync('flock', ['-n', '3'], {
    stdio: ['ignore', 'ignore', 'ignore', descriptor],
  })
  if (error) throw new UsageError(`work needs flock of util-linux: ${error.message}`)
  if (status === LOCKED)
    throw new UsageError(`another worker uses the folder ${file.slice(0, -'/lock'.length)}; give --folder`)
  if (status !== 0) throw new UsageError(`${file} cannot be locked`)
  return descriptor
}

/** Removes a folder, also folders in it that may not be written to, such as those of Go's module cache. */
function removeAll(path: string): string | undefined {
  const remove = () => rmSync(path, { recursive: true, force: true, maxRetries: 3 })
  try {
    remove()
    return undefined
  } catch {
    openFolders(path)
  }
  try {
    remove()
    return undefined
  } catch (error) {
    return plain(error instanceof Error ? error.message : String(error))
  }
}

/** Gives this user all rights to a folder and those in it. Follows no links. */
function openFolders(path: string): void {
  try {
    if (!lstatSync(path).isDirectory()) return
    chmodSync(path, 0o700)
    for (const name of readdirSync(path)) openFolders(join(path, name))
  } catch {
    // It belongs to another user.
  }
}

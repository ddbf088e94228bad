import { randomBytes } from 'node:crypto'
import { readdir, rm, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { emptyWhenMissing, isMissing } from '../../util/missing.ts'

/** Milliseconds without a write after which a draft is abandoned, even if its process may still be running. */
const ABANDONED_AFTER = 24 * 60 * 60 * 1000
/** The end of a draft's name. Earlier versions did not include the machine and the process. */
const DRAFT = /^\.(?:(?<machine>.+)-(?<pid>\d+)-)?[0-9a-f]{8}\.part$/

/** Returns a new name for a backup of `file` that is not yet complete. */
export function draftOf(file: string): string {
  return `${file}.${hostname()}-${process.pid}-${randomBytes(4).toString('hex')}.part`
}

/**
 * Removes the drafts that killed backups to `file` left behind. Keeps the drafts of running processes, and those of other
 * machines and containers, whose processes are not visible here, until a day after they were last written to.
 */
export async function removeAbandonedDrafts(file: string): Promise<void> {
  const folder = dirname(file)
  const name = basename(file)
  for (const entry of await readdir(folder).catch(emptyWhenMissing)) {
    const draft = entry.startsWith(name) ? DRAFT.exec(entry.slice(name.length)) : null
    if (draft === null) continue
    const { machine, pid } = draft.groups ?? {}
    const path = join(folder, entry)
    const isDead = machine === undefined || (machine === hostname() && !isRunning(Number(pid)))
    if (isDead || (await isOld(path))) await rm(path, { force: true })
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: the process belongs to another account.
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH')
  }
}

async function isOld(path: string): Promise<boolean> {
  try {
    return Date.now() - (await stat(path)).mtimeMs > ABANDONED_AFTER
  } catch (error) {
    // It was completed or removed meanwhile.
    if (isMissing(error)) return false
    throw error
  }
}

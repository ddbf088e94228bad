import { randomBytes } from 'node:crypto'
import { readdir, rm, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { emptyWhenMissing, isMissing } from '../../util/missing.ts'

/** Milliseconds after which a backup that wrote nothing is considered dead, whether or not its process can be seen. */
const ABANDONED_AFTER = 24 * 60 * 60 * 1000
/** Earlier versions named neither the machine nor the process. */
const DRAFT = /^\.(?:(?<machine>.+)-(?<pid>\d+)-)?[0-9a-f]{8}\.part$/

/** Returns the name under which this process writes a backup until it is complete. */
export function draftOf(file: string): string {
  return `${file}.${hostname()}-${process.pid}-${randomBytes(4).toString('hex')}.part`
}

/**
 * Removes the drafts of backups to `file` that were killed. The draft of a running process stays, and so does that of
 * another machine or container, whose processes cannot be seen: for a day after it was last written to.
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
    // EPERM: a process of another account.
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH')
  }
}

async function isOld(path: string): Promise<boolean> {
  try {
    return Date.now() - (await stat(path)).mtimeMs > ABANDONED_AFTER
  } catch (error) {
    // Completed or removed meanwhile.
    if (isMissing(error)) return false
    throw error
  }
}

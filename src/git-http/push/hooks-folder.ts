import { randomBytes } from 'node:crypto'
import { constants, rmSync } from 'node:fs'
import { access, lstat, mkdtemp, rename, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RepositoryUnavailable } from '../../git/repository-health.ts'

/**
 * Connects git to the server through the channel that git inherits from it. Both programs end when the channel or git's pipe is
 * closed. Only the first one keeps git's pipe open, so git sees when the server is gone.
 */
const PROC_RECEIVE = '#!/bin/sh\ncat <&3 &\nexec cat >&3\n'

/** The file descriptor of the channel in git and the hook. */
export const HOOK_CHANNEL = 3

let hooksFolder: Promise<string> | undefined

/**
 * Returns a folder for `core.hooksPath` with the hook `proc-receive`, in which no other account can write. It is removed when
 * the process ends.
 *
 * @throws RepositoryUnavailable if the folder cannot be written or does not allow programs
 */
export async function openHooksFolder(): Promise<string> {
  try {
    const folder = await openFolder()
    const hook = join(folder, 'proc-receive')
    await access(hook, constants.X_OK).catch(() => createHook(hook))
    return folder
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new RepositoryUnavailable(
      `git cannot run a hook in the folder for temporary files (set TMPDIR to one that is not mounted noexec): ${reason}`,
      { cause: error },
    )
  }
}

async function openFolder(): Promise<string> {
  const known = hooksFolder
  const folder = await known?.catch(() => undefined)
  if (folder !== undefined && (await isOwnFolder(folder))) return folder
  // Another call may have created a folder meanwhile.
  if (hooksFolder === known || hooksFolder === undefined) hooksFolder = createFolder()
  return hooksFolder
}

/** Returns false if the folder was removed from /tmp; then another account may have taken its name. */
async function isOwnFolder(folder: string): Promise<boolean> {
  const stats = await lstat(folder).catch(() => null)
  return stats?.isDirectory() === true && stats.uid === process.geteuid?.()
}

async function createFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'commit-status-hooks-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

async function createHook(hook: string): Promise<void> {
  // git may run the hook of another push at any time.
  const draft = `${hook}.${randomBytes(6).toString('hex')}`
  await writeFile(draft, PROC_RECEIVE, { mode: 0o700 })
  await rename(draft, hook)
  await access(hook, constants.X_OK)
}

import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { access, mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { openPrivateFolder } from './private-folder.ts'
import { RepositoryUnavailable } from './repository-health.ts'

/**
 * Connects git to the server through the channel that git inherits from it. Both programs end when the channel or git's pipe is
 * closed. Only the first one keeps git's pipe open, so git sees when the server is gone.
 */
const PROC_RECEIVE = '#!/bin/sh\ncat <&3 &\nexec cat >&3\n'

/** The file descriptor of the channel in git and the hook. */
export const HOOK_CHANNEL = 3

/**
 * Returns a folder for `core.hooksPath` with the hook `proc-receive`, in which no other account can write.
 *
 * @throws RepositoryUnavailable if the folder cannot be written or does not allow programs
 */
export async function openHooksFolder(): Promise<string> {
  try {
    const folder = join(await openPrivateFolder(), 'hooks')
    const hook = join(folder, 'proc-receive')
    await access(hook, constants.X_OK).catch(() => createHook(folder, hook))
    return folder
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    throw new RepositoryUnavailable(
      `git cannot run a hook in the folder for temporary files (set TMPDIR to one that is not mounted noexec): ${reason}`,
      { cause: error },
    )
  }
}

async function createHook(folder: string, hook: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  // git may run the hook of another push at any time.
  const draft = `${hook}.${randomBytes(6).toString('hex')}`
  await writeFile(draft, PROC_RECEIVE, { mode: 0o700 })
  await rename(draft, hook)
  await access(hook, constants.X_OK)
}

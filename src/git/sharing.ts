import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { unavailable } from './repository-health.ts'

/**
 * Returns the umask, in octal digits, that gives pushed files the same permissions for group and others as the folder
 * `objects` of an imported repository. The repository's own `core.sharedRepository` applies as well.
 *
 * Setting `core.sharedRepository` for a single call is no alternative: it sets the setgid bit on each new folder, and every
 * push would fail under a service manager that forbids it (`RestrictSUIDSGID` of systemd).
 *
 * @param path absolute path of the git directory
 * @throws RepositoryUnavailable if the folder cannot be read
 */
export async function sharingUmask(path: string): Promise<string> {
  try {
    const { mode } = await stat(join(path, 'objects'))
    return (~mode & 0o077).toString(8).padStart(3, '0')
  } catch (error) {
    throw unavailable(path, error)
  }
}

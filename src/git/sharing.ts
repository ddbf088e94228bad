import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { unavailable } from './repository-health.ts'

/**
 * Returns the umask, in octal digits, that keeps an imported repository as open to other accounts as it is: what is pushed
 * can be read and written by those who may read and write in its folder `objects`. A `core.sharedRepository` of its own
 * has its effect as well.
 *
 * The other way, `core.sharedRepository` for a single call, puts the setgid bit on each new folder. Under a service manager
 * that forbids it (`RestrictSUIDSGID` of systemd) every push would fail.
 *
 * @param path absolute path of the git directory
 * @throws RepositoryUnavailable when the folder cannot be looked at
 */
export async function sharingUmask(path: string): Promise<string> {
  try {
    const { mode } = await stat(join(path, 'objects'))
    return (~mode & 0o077).toString(8).padStart(3, '0')
  } catch (error) {
    throw unavailable(path, error)
  }
}

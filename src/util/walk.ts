import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { emptyWhenMissing } from './expected-errors.ts'

/**
 * Lists everything below a folder, then the folder itself. Entries that are removed meanwhile may
 * or may not be listed. Symbolic links are not followed.
 */
export async function* walk(folder: string): AsyncGenerator<{ path: string; isFolder: boolean }> {
  for (const entry of await readdir(folder, { withFileTypes: true }).catch(emptyWhenMissing)) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) yield* walk(path)
    else yield { path, isFolder: false }
  }
  yield { path: folder, isFolder: true }
}

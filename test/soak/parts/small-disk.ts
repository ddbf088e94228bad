import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'

export const MIB = 1024 ** 2
const SIZE = 64 * MIB

/** A file system of its own in memory, which a superuser may mount. */
export function mount(t: Test, options = ''): string {
  const folder = mkdtempSync(join(tmpdir(), 'disk-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE}${options}`, 'tmpfs', folder])
  t.teardown(() => {
    execFileSync('umount', ['--lazy', folder])
    rmSync(folder, { recursive: true })
  })
  return folder
}

/** Leaves no room on a disk, or some bytes. @returns makes room again */
export function fill(folder: string, rest = 0): () => void {
  const file = join(folder, 'filler')
  for (;;) {
    const room = freeBytes(folder) - rest
    if (room <= 0) break
    try {
      appendFileSync(file, Buffer.alloc(room))
    } catch {
      // The server has written something meanwhile.
    }
  }
  return () => rmSync(file)
}

export function freeBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder)
  return bavail * bsize
}

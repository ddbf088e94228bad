import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The file system in memory of Linux. */
const MEMORY = '/dev/shm'
/** Bytes that must be free there: several times what a run of all tests needs. */
const FREE = 2 * 1024 ** 3

/**
 * Creates a folder for temporary files that every account can enter: in memory, unless `TMPDIR` names a place, or there is
 * too little room, or no program may run there, as in many containers.
 */
export function createFastFolder(): string {
  if (process.env.TMPDIR || !hasRoom()) return createFolder(tmpdir())
  const folder = createFolder(MEMORY)
  if (canRunPrograms(folder)) return folder
  rmSync(folder, { recursive: true })
  return createFolder(tmpdir())
}

function createFolder(parent: string): string {
  const folder = mkdtempSync(join(parent, 'tests-'))
  chmodSync(folder, 0o755)
  return folder
}

function hasRoom(): boolean {
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    return bavail * bsize >= FREE
  } catch {
    return false
  }
}

function canRunPrograms(folder: string): boolean {
  const program = join(folder, 'program')
  try {
    writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 })
    execFileSync(program)
    return true
  } catch {
    return false
  }
}

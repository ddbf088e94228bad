import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The file system in memory of Linux. */
const MEMORY = '/dev/shm'
/** Bytes that must be free there: several times what a run of all tests needs. */
const FREE = 2 * 1024 ** 3

/**
 * Creates a folder for temporary files of every account: in memory, unless `TMPDIR` names a place,
 * or there is too little room, or no program may run there, as in many containers.
 */
export function createFastFolder(): string {
  return (process.env.TMPDIR ? null : createInMemory()) ?? createFolder(tmpdir())
}

function createFolder(parent: string): string {
  const folder = mkdtempSync(join(parent, 'tests-'))
  chmodSync(folder, 0o1777)
  return folder
}

function createInMemory(): string | null {
  let folder: string | null = null
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    if (bavail * bsize < FREE) return null
    folder = createFolder(MEMORY)
    const program = join(folder, 'program')
    writeFileSync(program, '#!/bin/sh\n', { mode: 0o755 })
    execFileSync(program)
    return folder
  } catch {
    if (folder !== null) rmSync(folder, { recursive: true })
    return null
  }
}

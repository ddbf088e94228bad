import type { BigIntStats } from 'node:fs'
import { lstat, stat } from 'node:fs/promises'

/** The state of a file at one moment. */
export interface FileState {
  /** Changes when the file, or a symbolic link at its path, is written or replaced. Empty if nothing is there. */
  stamp: string
  /** Time of the latest change in nanoseconds since 1970; 0 if nothing is there. */
  changedAt: bigint
}

/**
 * Returns the state of a file. A symbolic link counts as well as its target: git accepts a HEAD that is a link to a ref, and
 * that ref need not have a file.
 *
 * @throws the system's error, unless the file does not exist
 */
export async function fileState(path: string): Promise<FileState> {
  const entry = await unlessMissing(lstat(path, { bigint: true }))
  const target = entry?.isSymbolicLink() ? await statIfExists(path) : null
  const found = [entry, target].filter((stats) => stats !== null)
  return {
    stamp: found.map(stampOf).join(' '),
    changedAt: found.reduce((latest, { ctimeNs }) => (ctimeNs > latest ? ctimeNs : latest), 0n),
  }
}

/** Returns null if the file does not exist. Follows symbolic links. @throws the system's error */
export function statIfExists(path: string): Promise<BigIntStats | null> {
  return unlessMissing(stat(path, { bigint: true }))
}

async function unlessMissing(stats: Promise<BigIntStats>): Promise<BigIntStats | null> {
  try {
    return await stats
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    if (code === 'ENOENT' || code === 'ENOTDIR') return null
    throw error
  }
}

function stampOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(':')
}

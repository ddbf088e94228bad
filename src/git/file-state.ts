import type { BigIntStats } from 'node:fs'
import { lstat, stat } from 'node:fs/promises'
import { hasCode, nullOnSystemError } from '../errors.ts'

/** The state of several files and folders at one moment. */
export interface FilesState {
  readonly paths: readonly string[]
  /**
   * Changes when a file, or a symbolic link at its path, is written, replaced, created or removed.
   */
  readonly stamps: string
  /** False if something changed shortly before: the next change may get the same timestamp. */
  readonly settled: boolean
}

/** Milliseconds. Longer than the resolution of timestamps on any file system. */
const TIMESTAMP_RESOLUTION = 2_000

/** Returns whether a change, in nanoseconds since 1970, is so old that the next differs in time. */
export function isSettled(changedAt: bigint): boolean {
  return changedAt < BigInt(Date.now() - TIMESTAMP_RESOLUTION) * 1_000_000n
}

/** Returns the state of files. One that cannot be read has the state of a missing one. */
export async function filesState(paths: readonly string[]): Promise<FilesState> {
  const entries = await Promise.all(paths.map(statsOf))
  return {
    paths,
    stamps: entries.map((stats) => stats.map(stampOf).join(' ')).join(),
    settled: entries.flat().every(({ ctimeNs }) => isSettled(ctimeNs)),
  }
}

/** Returns whether no file has changed since their state was read. */
export async function isCurrent({ paths, stamps, settled }: FilesState): Promise<boolean> {
  return settled && (await filesState(paths)).stamps === stamps
}

/**
 * Returns what is at a path: nothing, a file, or a symbolic link and its target. git accepts a HEAD
 * that is a link to a ref, and that ref need not have a file.
 */
async function statsOf(path: string): Promise<BigIntStats[]> {
  const entry = await lstat(path, { bigint: true }).catch(nullOnSystemError)
  const target = entry?.isSymbolicLink() ? await statIfExists(path).catch(nullOnSystemError) : null
  return [entry, target].filter((stats) => stats !== null)
}

/** Returns null if the file does not exist. Follows symbolic links. @throws the system's error */
export async function statIfExists(path: string): Promise<BigIntStats | null> {
  try {
    return await stat(path, { bigint: true })
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ENOTDIR')) return null
    throw error
  }
}

function stampOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  return [dev, ino, size, mtimeNs, ctimeNs].join(':')
}

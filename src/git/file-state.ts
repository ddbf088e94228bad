import type { BigIntStats } from 'node:fs'
import { lstat, stat } from 'node:fs/promises'

/** The state of a file at one moment. */
interface FileState {
  /** Changes when the file, or a symbolic link at its path, is written or replaced. Empty if nothing is there. */
  stamp: string
  /** Time of the latest change in nanoseconds since 1970; 0 if nothing is there. */
  changedAt: bigint
}

/** The state of several files and folders at one moment. */
export interface FilesState {
  readonly paths: readonly string[]
  readonly stamps: string
  /** False if something changed shortly before: the next change may get the same timestamp. */
  readonly settled: boolean
}

/** Milliseconds. Longer than the resolution of timestamps on any file system. */
const TIMESTAMP_RESOLUTION = 2_000

/**
 * Returns whether a change lies so far back that a later one gets another timestamp.
 *
 * @param changedAt nanoseconds since 1970
 * @param now milliseconds since 1970, before the file was read
 */
export function isSettled(changedAt: bigint, now = Date.now()): boolean {
  return changedAt < BigInt(now - TIMESTAMP_RESOLUTION) * 1_000_000n
}

/** Returns the state of files. One that cannot be read has the state of a missing one. */
export async function filesState(paths: readonly string[]): Promise<FilesState> {
  const none = { stamp: '', changedAt: 0n }
  const states = await Promise.all(paths.map((path) => fileState(path).catch(() => none)))
  return {
    paths,
    stamps: states.map(({ stamp }) => stamp).join(','),
    settled: states.every(({ changedAt }) => isSettled(changedAt)),
  }
}

/** Returns whether no file has changed since their state was read. */
export async function isCurrent({ paths, stamps, settled }: FilesState): Promise<boolean> {
  return settled && (await filesState(paths)).stamps === stamps
}

/**
 * Returns the state of a file. A symbolic link counts as well as its target: git accepts a HEAD that is a link to a ref, and
 * that ref need not have a file.
 *
 * @throws the system's error, unless the file does not exist
 */
async function fileState(path: string): Promise<FileState> {
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

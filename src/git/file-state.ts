import { type BigIntStats, lstatSync, statSync } from 'node:fs'
import { lstat, stat } from 'node:fs/promises'
import { hasCode, nullOnSystemError } from '../util/expected-errors.ts'

/** The state of several files and folders at one moment. */
export interface FilesState {
  readonly paths: readonly string[]
  /**
   * Changes when a file, or a symbolic link at its path, is written, replaced, created or removed.
   */
  readonly stamps: string
  /** False if something changed shortly before: the next change may get the same timestamp. */
  readonly settled: boolean
  readonly disk: Disk
}

/**
 * Who changes files: the processes of this machine, whose clock then gives the times of changes, or
 * those of other machines too.
 */
export type Disk = 'own' | 'shared'

/*
 * What was read is kept only if the last change before it was so old that the next one has another
 * time, whenever it comes:
 *
 *   last change ──── at least the resolution ────▶ now ─▶ paths are found ─▶ their times ─▶ values
 *                                                   └──────── the next change, from here on ──────▶
 *
 * A kernel gives a change the time of its clock at the last tick, and ticks every 10 ms or more
 * often (every 16 ms on Windows). Its file systems keep fractions of seconds, at least hundredths,
 * or whole seconds (ext3) or even ones (FAT), so that a time without a fraction may be one of these.
 * A file server has a clock of its own, which may be some time behind: a change then looks older
 * than it is. One that is ahead does no harm: what lies in the future is not settled.
 */
/** Milliseconds. Several ticks of the clock. */
const FINE_RESOLUTION = 50
/** Milliseconds. Longer than the resolution of any file system, or the difference of clocks. */
const COARSE_RESOLUTION = 2_000
const SECOND = 1_000_000_000n
/**
 * Files whose state is read in this thread, a few microseconds each: a thread of the pool takes ten
 * times as long. Not on a disk of other machines, which may keep the thread waiting; SQLite, whose
 * database lies on this one, reads it in this thread too.
 */
const AT_ONCE = 32

/**
 * Returns whether a change is so old that the next one has another time.
 *
 * @param changedAt nanoseconds since 1970
 * @param now milliseconds since 1970, from before the time of the change was read
 */
export function isSettled(changedAt: bigint, now: number, disk: Disk): boolean {
  const isFine = disk === 'own' && changedAt % SECOND !== 0n
  return changedAt < BigInt(now - (isFine ? FINE_RESOLUTION : COARSE_RESOLUTION)) * 1_000_000n
}

/**
 * Returns the state of files. One that cannot be read has the state of a missing one.
 *
 * @param now milliseconds since 1970, from before the paths were found
 */
export async function filesState(
  paths: readonly string[],
  disk: Disk = 'shared',
  now: number = Date.now(),
): Promise<FilesState> {
  const entries =
    disk === 'own' && paths.length <= AT_ONCE ? paths.map(statsOf) : await Promise.all(paths.map(askStatsOf))
  return {
    paths,
    disk,
    stamps: entries.map((stats) => stats.map(stampOf).join(' ')).join(),
    settled: entries.flat().every(({ ctimeNs }) => isSettled(ctimeNs, now, disk)),
  }
}

/** Returns whether no file has changed since their state was read. */
export async function isCurrent({ paths, stamps, settled, disk }: FilesState): Promise<boolean> {
  return settled && (await filesState(paths, disk)).stamps === stamps
}

/**
 * Returns what is at a path: nothing, a file, or a symbolic link and its target. git accepts a HEAD
 * that is a link to a ref, and that ref need not have a file.
 */
async function askStatsOf(path: string): Promise<BigIntStats[]> {
  const entry = await lstat(path, { bigint: true }).catch(nullOnSystemError)
  const target = entry?.isSymbolicLink() ? await statIfExists(path).catch(nullOnSystemError) : null
  return [entry, target].filter((stats) => stats !== null)
}

/** As `askStatsOf`, at once. */
function statsOf(path: string): BigIntStats[] {
  const options = { bigint: true, throwIfNoEntry: false } as const
  const entry = read(() => lstatSync(path, options))
  const target = entry?.isSymbolicLink() ? read(() => statSync(path, options)) : undefined
  return [entry, target].filter((stats) => stats !== undefined)

  function read(stats: () => BigIntStats | undefined): BigIntStats | undefined {
    try {
      return stats()
    } catch (error) {
      return nullOnSystemError(error) ?? undefined
    }
  }
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

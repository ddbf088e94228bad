import { totalmem } from 'node:os'

/**
 * Returns about how many bytes of memory texts take, each with what refers to it. A character takes
 * one byte or two: caches are bounded by the larger number.
 */
export function bytesOfTexts(texts: Iterable<string>): number {
  let bytes = 0
  for (const text of texts) bytes += 80 + 2 * text.length
  return bytes
}

export const MEGABYTE = 1024 * 1024
/** Bytes of memory with which no cache is smaller. All of them and all unsent answers take less than half. */
const PLENTY = 2048 * MEGABYTE
/** Of the container or service, if that has a limit, else of the machine. */
const available = Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem())

/**
 * Returns how many bytes to keep of what takes so many MB at most: all of it where the process has 2 GB
 * of memory, less in proportion to less memory.
 */
export function shareOfMemory(megabytes: number, memory = available): number {
  return Math.floor(megabytes * MEGABYTE * Math.min(1, memory / PLENTY))
}

/**
 * Returns the options of an `LRUCache` that has at most so many entries. With `max`, it would take the
 * memory of all of them from the start.
 */
export function entriesUpTo(count: number) {
  return { maxSize: count, sizeCalculation: () => 1 }
}

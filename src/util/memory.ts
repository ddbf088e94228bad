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

/**
 * Returns the options of an `LRUCache` that has at most so many entries. With `max`, it would take the
 * memory of all of them from the start.
 */
export function entriesUpTo(count: number) {
  return { maxSize: count, sizeCalculation: () => 1 }
}

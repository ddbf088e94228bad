/** Splits a list into lists of at most `size` items. */
export function chunksOf<Item>(items: readonly Item[], size: number): Item[][] {
  const chunks: Item[][] = []
  for (let start = 0; start < items.length; start += size) chunks.push(items.slice(start, start + size))
  return chunks
}

/**
 * Returns the index of the first item of a sorted list that does not come before a place; the length
 * of the list if all do.
 *
 * @param comesBefore true for all items before the place, false for all others
 */
export function sortedIndex<Item>(items: readonly Item[], comesBefore: (item: Item) => boolean): number {
  let [low, high] = [0, items.length]
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const item = items[middle]
    if (item !== undefined && comesBefore(item)) low = middle + 1
    else high = middle
  }
  return low
}

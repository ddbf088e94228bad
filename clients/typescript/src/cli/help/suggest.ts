/** Returns `; did you mean WORD?` with the word that is meant; empty if none is like it. */
export function suggest(typed: string, words: readonly string[]): string {
  const [best] = words
    .map((word) => ({ word, distance: distance(typed.toLowerCase(), word) }))
    .filter(({ word, distance }) => distance <= Math.max(1, Math.floor(word.length / 3)))
    // Few mistype the first letter.
    .sort(
      (a, b) => a.distance - b.distance || Number(b.word[0] === typed[0]) - Number(a.word[0] === typed[0]),
    )
  return best ? `; did you mean ${best.word}?` : ''
}

/** Returns the number of letters to insert, remove, replace or swap with the next one. */
function distance(from: string, to: string): number {
  // Longer words are no typing errors.
  if (Math.abs(from.length - to.length) > to.length) return Number.POSITIVE_INFINITY
  let before: number[] = []
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let i = 1; i <= from.length; i++) {
    const next = [i]
    for (let j = 1; j <= to.length; j++) {
      const isSame = from[i - 1] === to[j - 1]
      const isSwapped = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1]
      next.push(
        Math.min(
          (row[j] ?? 0) + 1,
          (next[j - 1] ?? 0) + 1,
          (row[j - 1] ?? 0) + (isSame ? 0 : 1),
          isSwapped ? (before[j - 2] ?? 0) + 1 : Number.POSITIVE_INFINITY,
        ),
      )
    }
    before = row
    row = next
  }
  return row[to.length] ?? 0
}

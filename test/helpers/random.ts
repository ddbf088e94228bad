/** A seeded pseudorandom number generator (mulberry32). */
export interface Random {
  /** Returns an integer from 0 up to, but not including, `end`. */
  below(end: number): number
  /** Returns true with probability 1 / `times`. */
  onceIn(times: number): boolean
  pick<const Choices extends readonly unknown[]>(choices: Choices): Choices[number]
}

export function createRandom(seed: number): Random {
  let state = seed
  const next = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (end: number) => Math.floor(next() * end)
  return {
    below,
    onceIn: (times) => below(times) === 0,
    pick: (choices) => choices[below(choices.length)],
  }
}

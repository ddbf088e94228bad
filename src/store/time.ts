/** Seconds since the epoch, cut, not rounded: a moment is never later than it was. */
export function nowInSeconds(): number {
  return Math.floor(Date.now() / 1000)
}

/** `YYYY-MM-DDThh:mm:ssZ` (contract, part 2). @param seconds since the epoch */
export function formatTime(seconds: number): string {
  if (seconds !== last.seconds) last = { seconds, text: format(seconds) }
  return last.text
}

/** Most times that are shown one after the other are the same. */
let last = { seconds: 0, text: format(0) }

function format(seconds: number): string {
  return `${new Date(seconds * 1000).toISOString().slice(0, 19)}Z`
}

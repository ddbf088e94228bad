const WIDTH = 30

/**
 * Shows on standard error how far something is: a bar that moves, or where nobody watches, a line at every tenth.
 *
 * @example
 * const progress = showProgress()
 * progress('copy statuses', 500, 2_000)
 */
export function showProgress(stream: NodeJS.WriteStream = process.stderr) {
  let shown = ''
  return (label: string, done: number, total: number): void => {
    const share = total === 0 ? 1 : Math.min(done / total, 1)
    const numbers = `${done.toLocaleString('en')} of ${total.toLocaleString('en')}`
    if (stream.isTTY) {
      const bar = '#'.repeat(Math.floor(share * WIDTH)).padEnd(WIDTH, '.')
      // The bar of each label stays when the next one begins.
      const newLine = shown !== '' && shown !== label ? '\n' : ''
      stream.write(`${newLine}\r\x1b[2K${label} [${bar}] ${Math.floor(share * 100)} % ${numbers}`)
      if (share === 1) stream.write('\n')
      shown = share === 1 ? '' : label
    } else {
      const step = `${label} ${Math.floor(share * 10)}`
      if (step !== shown) stream.write(`${label}: ${numbers}\n`)
      shown = step
    }
  }
}

/** Milliseconds between two lines where nobody watches. */
const PAUSE = 10_000

/**
 * Shows on standard error how much of something is done where nobody knows how much there is: a line that changes, or
 * where nobody watches, a line every ten seconds, and the last one.
 */
export function showCount(stream: NodeJS.WriteStream = process.stderr) {
  let next = performance.now() + PAUSE
  return (text: string, last = false): void => {
    if (stream.isTTY) {
      stream.write(`\r\x1b[2K${text}${last ? '\n' : ''}`)
    } else if (last || performance.now() >= next) {
      stream.write(`${text}\n`)
      next = performance.now() + PAUSE
    }
  }
}

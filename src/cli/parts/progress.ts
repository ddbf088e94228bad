const WIDTH = 30

/** Where progress is shown. */
interface Terminal {
  isTTY: boolean
  write(text: string): unknown
}

/**
 * Returns a function that shows progress on stderr as a bar. Prints nothing unless stderr is a
 * terminal, so that cron sends no mail.
 *
 * @example
 * const progress = showProgress()
 * progress('backup statuses', 500, 2_000)
 */
export function showProgress(stream: Terminal = process.stderr) {
  let lastLabel = ''
  return (label: string, done: number, total: number): void => {
    if (!stream.isTTY) return
    const share = total === 0 ? 1 : Math.min(done / total, 1)
    const numbers = `${done.toLocaleString('en')} of ${total.toLocaleString('en')}`
    const bar = '#'.repeat(Math.floor(share * WIDTH)).padEnd(WIDTH, '.')
    // The bar of each label stays when the next one begins.
    const newLine = lastLabel !== '' && lastLabel !== label ? '\n' : ''
    stream.write(`${newLine}\r\x1b[2K${label} [${bar}] ${Math.floor(share * 100)} % ${numbers}`)
    if (share === 1) stream.write('\n')
    lastLabel = share === 1 ? '' : label
  }
}

/**
 * Returns a function that shows on stderr how much is done, where the total is not known: a line
 * that changes. Unless stderr is a terminal, it prints only the last line.
 */
export function showCount(stream: Terminal = process.stderr) {
  return (text: string, last = false): void => {
    if (stream.isTTY) stream.write(`\r\x1b[2K${text}${last ? '\n' : ''}`)
    else if (last) stream.write(`${text}\n`)
  }
}

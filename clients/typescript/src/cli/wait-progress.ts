import type { WriteStream } from 'node:tty'
import type { WaitProgress } from '../index.ts'
import { describeProgress } from './describe-wait.ts'

/** Milliseconds between two updates of the ages at a terminal. */
const REFRESH = 1_000
const CLEAR_LINE = '\r\x1b[K'

/**
 * Shows what a wait is waiting for: at a terminal one line that is rewritten, elsewhere one line
 * for each change.
 */
export function showProgress(stream: Pick<WriteStream, 'isTTY' | 'columns' | 'write'>) {
  let latest: { progress: WaitProgress; at: number } | undefined

  function rewrite(): void {
    if (latest === undefined) return
    const time = new Date(latest.progress.time.getTime() + performance.now() - latest.at)
    const line = Array.from(describeProgress(latest.progress, time))
    stream.write(CLEAR_LINE + line.slice(0, (stream.columns || 80) - 1).join(''))
  }

  /** Removes the line from a terminal. */
  function clear(): void {
    if (stream.isTTY) stream.write(CLEAR_LINE)
  }

  const timer = stream.isTTY ? setInterval(rewrite, REFRESH) : undefined
  return {
    update(progress: WaitProgress): void {
      latest = { progress, at: performance.now() }
      if (stream.isTTY) rewrite()
      else stream.write(`commit-status: ${describeProgress(progress, progress.time)}\n`)
    },
    clear,
    end(): void {
      clearInterval(timer)
      clear()
    },
  }
}

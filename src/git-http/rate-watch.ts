/** The minimum rate at which a client must send, on average over `window` milliseconds. */
export interface MinimumRate {
  bytesPerSecond: number
  window: number
}

/**
 * Checks that a client sends at a minimum rate. Time counts only while the server waits for the client, so a client is never
 * too slow because git is busy.
 *
 * ```
 *             resume                  a window of counted time is over
 *   paused ◀─────────────▶ counting ─┬── enough bytes in it ──▶ counting, next window
 *             pause                  └── too few ─────────────▶ paused, onSlow is called
 * ```
 */
export class RateWatch {
  readonly #minimum: MinimumRate
  readonly #onSlow: () => void
  #timer: NodeJS.Timeout | undefined
  #check: NodeJS.Immediate | undefined
  /** Milliseconds and bytes of the current window. */
  #counted = 0
  #bytes = 0
  #since = 0
  #stopped = false

  /** The watch starts paused. */
  constructor(minimum: MinimumRate, onSlow: () => void) {
    this.#minimum = minimum
    this.#onSlow = onSlow
  }

  /** Counts time from now on. */
  resume(): void {
    if (this.#stopped) return
    this.#since = performance.now()
    const rest = Math.max(0, this.#minimum.window - this.#counted)
    this.#timer = setTimeout(() => {
      // If the event loop was blocked, read the bytes that have arrived meanwhile before the check.
      this.#check = setImmediate(() => this.#endWindow())
    }, rest)
  }

  /** Stops counting time. @param bytes number of bytes that have arrived since `resume` */
  pause(bytes = 0): void {
    if (this.#timer === undefined) return
    clearTimeout(this.#timer)
    clearImmediate(this.#check)
    this.#timer = undefined
    this.#counted += performance.now() - this.#since
    this.#bytes += bytes
  }

  /** Stops the watch permanently. */
  stop(): void {
    this.pause()
    this.#stopped = true
  }

  #endWindow(): void {
    this.#timer = undefined
    const { bytesPerSecond, window } = this.#minimum
    const isSlow = this.#bytes < (bytesPerSecond * window) / 1000
    this.#counted = 0
    this.#bytes = 0
    if (isSlow) this.#onSlow()
    else this.resume()
  }
}

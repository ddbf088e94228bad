import type { Command, Ending } from './command.ts'

const SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']
/** Milliseconds that the last report has once a signal has come. */
const AFTER_SIGNAL = 5_000
/** Milliseconds within which another signal may be the same one: npx passes on what all have got. */
export const SAME_SIGNAL = 500

/** Where the signals to a command line come from: its process, or whoever calls it in theirs. */
export interface SignalSource {
  on(name: NodeJS.Signals, listener: (name: NodeJS.Signals) => void): unknown
  off(name: NodeJS.Signals, listener: (name: NodeJS.Signals) => void): unknown
}

/** What signals ask for while a command runs, and while its result is reported. */
export interface Cancellation {
  /** The first signal that came before the command had ended. */
  readonly signal: NodeJS.Signals | undefined
  /** Aborted by it. */
  readonly cancelled: AbortSignal
  /**
   * Aborted when the report of the result is to be given up: some time after the first signal, and
   * at once by a second one.
   */
  readonly givenUp: AbortSignal
  /** Passes signals on to a command until it has ended, and returns how it did. */
  passTo(command: Command): Promise<Ending>
}

/** Listens for signals from now on, in place of the end of the process. */
export function watchSignals(signals: SignalSource): Cancellation {
  const [cancelled, givenUp] = [new AbortController(), new AbortController()]
  let signal: NodeJS.Signals | undefined
  let firstAt: number | undefined
  let command: Command | undefined
  let hasEnded = false
  const giveUpSoon = () => setTimeout(() => givenUp.abort(), AFTER_SIGNAL)

  function receive(name: NodeJS.Signals): void {
    const isFirst = firstAt === undefined
    firstAt ??= performance.now()
    if (performance.now() - firstAt >= SAME_SIGNAL) givenUp.abort()
    if (hasEnded) {
      // The result is known.
      if (isFirst) giveUpSoon()
      return
    }
    // A terminal has already sent this signal to the command.
    if (!(process.stdin.isTTY && (name === 'SIGINT' || name === 'SIGQUIT'))) command?.kill(name)
    signal ??= name
    cancelled.abort()
  }

  for (const name of SIGNALS) signals.on(name, receive)
  return {
    get signal() {
      return signal
    },
    cancelled: cancelled.signal,
    givenUp: givenUp.signal,
    async passTo(running) {
      command = running
      const ending = await running.ended
      hasEnded = true
      if (signal) giveUpSoon()
      return ending
    },
  }
}

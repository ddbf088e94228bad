import { say } from './terminal.ts'

/** Is called with the problem when an outage begins, and with null when it is over. */
export type OutageNotice = (problem: string | null) => void

/**
 * Creates a notice that says on stderr once that the service is away, and once that it is back.
 *
 * @param prepare called before each message
 */
export function createOutageNotice(prepare: () => void = () => {}): OutageNotice {
  let isAway = false
  return (problem) => {
    if (isAway === (problem !== null)) return
    isAway = !isAway
    prepare()
    say(
      problem === null ? 'the service answers again' : `no answer from the service, still trying: ${problem}`,
    )
  }
}

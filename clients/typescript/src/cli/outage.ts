import { say } from './terminal.ts'

/** Is called with the problem when an outage begins, and with null when it is over. */
export type OutageNotice = (problem: string | null) => void

/**
 * Creates a notice that says once that the service is away, and once that it is back.
 *
 * @param write by default writes to stderr
 */
export function createOutageNotice(write: (message: string) => void = say): OutageNotice {
  let isAway = false
  return (problem) => {
    if (isAway === (problem !== null)) return
    isAway = !isAway
    write(
      problem === null ? 'the service answers again' : `no answer from the service, still trying: ${problem}`,
    )
  }
}

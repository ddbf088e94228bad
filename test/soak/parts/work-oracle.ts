import type { Arrival, Command, History } from './work-model.ts'

/** What was found in a history, beside what must not be. */
export interface Found {
  commands: number
  /** Reports that were refused. */
  refused: number
  /** Pairs of commands that ran on one commit at once. */
  overlaps: number
  requests: number
  /** Requests that were lost to a run that had begun before them, of which a report came late. */
  swallowed: number
}

/** Milliseconds after which a delivery is late. */
const LATE = 1_000
/** Milliseconds by which a run may have begun earlier than another one and still replace its report. */
const TOLERANCE = 5_000
/** Milliseconds in which a worker learns of a request: the time between two reports, and of ten attempts. */
const NOTICE = 210_000

/**
 * Checks what workers promise. Written from the documents: each newest commit gets a result; a result is
 * stored only over what its own run has reported last; a request for another run is followed by one;
 * and two commands of one commit run at once only beside a kill, a stall or an outage, or until one
 * of them learns of a request.
 *
 * @throws Error with what is wrong
 */
export function examine({ arrivals, commands, requests, disturbances, tips }: History): Found {
  const unfinished = tips.filter(({ state }) => state === undefined || state === 'pending')
  if (unfinished.length > 0) throw new Error(`without a result: ${JSON.stringify(unfinished)}`)

  const stored = new Map<string, Arrival>()
  for (const arrival of arrivals.filter(({ isStored }) => isStored)) {
    const before = stored.get(arrival.sha)
    if (arrival.state !== 'pending' && before && before.run !== arrival.run)
      throw new Error(`a result of a run that had lost its claim: ${JSON.stringify({ before, arrival })}`)
    stored.set(arrival.sha, arrival)
  }

  const swallowed = tips.filter((tip) => isSwallowed(tip, { arrivals, commands, requests })).length

  let overlaps = 0
  for (const [first, second] of pairs(commands)) {
    overlaps++
    const end = Math.min(first.end, second.end)
    const isDisturbed = (start: number, until: number) =>
      disturbances.some(
        ({ worker, from, to }) =>
          (worker === undefined || [first.worker, second.worker].includes(worker)) &&
          from <= until &&
          to >= start,
      )
    const isRequested = requests.some(
      ({ sha, at }) =>
        sha === first.sha &&
        // Also on the way of the answer to the claim.
        at >= first.start - LATE &&
        at <= second.start &&
        (end <= at + NOTICE || isDisturbed(at, end)),
    )
    if (!isDisturbed(first.start, second.start) && !isRequested)
      throw new Error(`two commands at once: ${JSON.stringify({ first, second, disturbances, requests })}`)
  }
  const refused = arrivals.filter(({ isStored }) => !isStored).length
  return { commands: commands.length, refused, overlaps, requests: requests.length, swallowed }
}

/**
 * Returns whether the result of a commit is of a run that began before the last request for another
 * one. Only a report that came late can have brought it about: so late that the run looked as if it
 * had begun after the request, or less than 5 s before a run that did.
 *
 * @throws Error if it was not
 */
function isSwallowed(
  { sha, run }: History['tips'][number],
  { arrivals, commands, requests }: Pick<History, 'arrivals' | 'commands' | 'requests'>,
): boolean {
  const at = Math.max(...requests.filter((request) => request.sha === sha).map((request) => request.at))
  const runs = commands.filter((command) => command.run === run)
  if (at === Number.NEGATIVE_INFINITY || runs.some(({ start }) => start >= at)) return false
  const stored = arrivals.filter((each) => each.sha === sha && each.isStored)
  // What made the commit that of the run for the last time.
  const taken = stored.findLast((each, index) => each.run === run && stored[index - 1]?.run !== run)
  const began = Math.min(...arrivals.filter((each) => each.run === run).map(({ sentAt }) => sentAt))
  if (!taken || taken.at < at || taken.at - taken.sentAt <= at - began - TOLERANCE)
    throw new Error(`a request was swallowed: ${JSON.stringify({ sha, run, at, runs, taken, began })}`)
  return true
}

/** Returns the pairs of commands of one commit of which the second one began while the first one ran. */
function pairs(commands: readonly Command[]): [Command, Command][] {
  return commands.flatMap((first) =>
    commands
      .filter(
        (second) =>
          second !== first &&
          second.sha === first.sha &&
          second.start >= first.start &&
          second.start < first.end,
      )
      .map((second): [Command, Command] => [first, second]),
  )
}

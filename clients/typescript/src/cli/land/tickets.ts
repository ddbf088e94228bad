import { pauseAfter } from '../../poll.ts'
import { sleep } from '../../sleep.ts'
import type { Git } from '../git.ts'
import { say } from '../terminal.ts'
import { LandingEnd } from './landing-end.ts'
import type { Refs, Remote } from './remote.ts'

/** Times in milliseconds. */
export interface TicketTimes {
  /** How often a ticket is refreshed. */
  heartbeat: number
  /**
   * A ticket that has not changed for this time is skipped; after twice this time in all, every
   * ticket is.
   */
  grace: number
  /**
   * Longest pause between two reads of the tickets, three times that between two reads of the
   * verdict, which cost less; see `slowdown`.
   */
  interval: number
}

/** The turns of those who land on one branch. */
export interface Tickets {
  /**
   * Publishes the ticket, waits until no older one is to be waited for, and returns the refs then.
   * `time` is the server's.
   */
  turn(refs: Refs, time: Date): Promise<Refs>
  /** Shows others that the landing goes on. Returns why the server refused, or undefined. */
  refresh(): Promise<string | undefined>
  isPublished(): boolean
}

/** A landing, as far as tickets depend on it. */
export interface TicketOptions {
  git: Git
  remote: Remote
  /** Name of the target. */
  branch: string
  commit: string
  times: TicketTimes
  /** Returns the target, the topics and the tickets on the server. */
  look(): Promise<Refs>
  /** Milliseconds until the landing times out. */
  left(): number
  signal: AbortSignal
}

/** Any writer can forge thousands of tickets; one push removes no more than this. */
const MOST_REMOVED = 20

/** Returns the folder of the tickets for a branch. */
export const ticketFolder = (branch: string) => `refs/landing/${branch}/`

/** Returns the folder of what CI builds for a branch. */
export const topicFolder = (branch: string) => `refs/heads/land/${branch}/`

/** Returns the digits that end the names of the topic and the tickets of a commit. */
export const digitsOf = (commit: string) => commit.slice(0, 12)

/** Returns those refs that are the topic and the oldest tickets of a commit. */
export function refsOf(refs: Refs, commit: string, branch: string): string[] {
  const isTicket = (ref: string) =>
    ref.startsWith(ticketFolder(branch)) && ref.endsWith(`-${digitsOf(commit)}`)
  const topic = topicFolder(branch) + digitsOf(commit)
  const tickets = [...refs.keys()].filter(isTicket).sort().slice(0, MOST_REMOVED)
  return refs.has(topic) ? [topic, ...tickets] : tickets
}

/**
 * Creates the ticket of one landing. Without turns, one whose checks take long never lands under
 * constant traffic, and most CI runs are for nothing.
 *
 * A ticket is a ref outside of `refs/heads`, for which CI does nothing, named by time and commit.
 * Its value is a blob that its owner replaces once a minute. The oldest ticket has the turn:
 *
 * ```
 * publish ──▶ wait ──▶ turn ──▶ landed, failed, conflict, timed out, interrupted: the ticket is removed
 *              ▲  │      │
 *              │  │      └─ killed: the ticket no longer changes; the next one skips it after the grace time, and removes it with the topic
 *              └──┘ an older ticket changes, for at most two grace times in all
 * ```
 *
 * Any writer can forge, refresh or remove tickets. So they decide nothing but who waits, and for
 * how long is bounded. Two that have the turn at once lose time; what gets to the branch is up to
 * the server. One that runs again takes over its former ticket.
 */
export function createTickets(options: TicketOptions): Tickets {
  const { git, remote, branch, commit, times, look, left, signal } = options
  const folder = ticketFolder(branch)
  const seen = new Map<string, { value: string; since: number }>()
  let name = ''
  let refreshed = 0
  let waited = 0

  async function refresh(): Promise<string | undefined> {
    refreshed = performance.now()
    const input = `${commit} ${process.pid} ${Date.now()}\n`
    const blob = (await git(['hash-object', '-w', '--stdin'], { input })).stdout.trim()
    return remote.push(['--no-verify', '--force'], [`${blob}:${name}`])
  }

  /**
   * Returns the tickets to wait for, and those whose owners have not refreshed them for the grace
   * time.
   */
  function older(refs: Refs, now: number) {
    const tickets = [...refs].filter(([ref]) => ref.startsWith(folder) && ref < name)
    for (const [ref, value] of tickets)
      if (seen.get(ref)?.value !== value) seen.set(ref, { value, since: now })
    const isStale = ([ref]: [string, string]) => now - (seen.get(ref)?.since ?? now) >= times.grace
    const stale = tickets.filter(isStale).map(([ref]) => ref)
    return { ahead: tickets.length - stale.length, stale }
  }

  /** Removes some tickets with their topics, unless one was refreshed meanwhile. */
  async function remove(tickets: readonly string[], refs: Refs): Promise<void> {
    const topicOf = (ticket: string) => topicFolder(branch) + ticket.slice(ticket.lastIndexOf('-') + 1)
    const some = tickets.slice(0, MOST_REMOVED)
    const gone = [...some, ...new Set(some.map(topicOf))].filter((ref) => refs.has(ref))
    const leases = gone.map((ref) => `--force-with-lease=${ref}:${refs.get(ref)}`)
    await remote.push(
      ['--no-verify', '--atomic', ...leases],
      gone.map((ref) => `:${ref}`),
    )
  }

  return {
    async turn(refs, time) {
      let current = refs
      if (name === '') {
        const own = refsOf(refs, commit, branch).find((ref) => ref.startsWith(folder))
        name = own ?? `${folder}${time.toISOString().replace(/[-:.]/g, '')}-${digitsOf(commit)}`
        const refused = await refresh()
        if (refused) throw new LandingEnd('unanswered', `the server refused the ticket ${name}: ${refused}`)
        // One that was published meanwhile may be older.
        current = await look()
      }
      let announced = 0
      for (const start = performance.now(); ; ) {
        const now = performance.now()
        const { ahead, stale } = older(current, now)
        if (stale.length > 0) await remove(stale, current)
        if (ahead === 0 || waited >= 2 * times.grace) return current
        if (left() <= 0)
          throw new LandingEnd('pending', `timed out while waiting for ${ahead} older tickets on ${branch}`)
        if (ahead !== announced) say(`waiting for older tickets on ${branch}: ${ahead}`)
        announced = ahead
        const pause = pauseAfter(now - start, times.interval) * Math.min(ahead, 3)
        await sleep(Math.min(pause, times.heartbeat, 2 * times.grace - waited, left()), signal)
        signal.throwIfAborted()
        // After a failure, the next one may succeed.
        if (performance.now() - refreshed >= times.heartbeat) await refresh().catch(() => {})
        current = await look()
        waited += performance.now() - now
      }
    },
    refresh,
    isPublished: () => name !== '',
  }
}

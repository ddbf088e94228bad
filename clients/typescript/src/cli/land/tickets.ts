import { pauseAfter } from '../../poll.ts'
import { sleep } from '../../sleep.ts'
import { say } from '../terminal.ts'
import type { Git } from './git.ts'
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
   * Longest pause between two reads of the tickets, which cost more than a verdict; see `slowdown`.
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
  /** Stops refreshing the ticket until the next turn. */
  stop(): Promise<void>
  isPublished(): boolean
  /** Returns those refs that are tickets of this commit. */
  own(refs: Refs): string[]
}

interface TicketOptions {
  git: Git
  remote: Remote
  branch: string
  commit: string
  times: TicketTimes
  /** Returns the refs of the server, tickets included. */
  look(): Promise<Refs>
  /** Milliseconds until the landing times out. */
  left(): number
  signal: AbortSignal
}

/** Returns the folder of the tickets for a branch. */
export const ticketFolder = (branch: string) => `refs/landing/${branch}/`

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
 *              │  │      └─ killed: the ticket no longer changes; the next one skips it after the grace time, and removes it
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
  const suffix = `-${commit.slice(0, 12)}`
  const seen = new Map<string, { value: string; since: number }>()
  let name = ''
  let waited = 0
  let heart: { stop: AbortController; stopped: Promise<void> } | undefined

  const own = (refs: Refs) => [...refs.keys()].filter((ref) => ref.startsWith(folder) && ref.endsWith(suffix))

  async function refresh(): Promise<string | undefined> {
    const input = `${commit} ${process.pid} ${Date.now()}\n`
    const blob = (await git(['hash-object', '-w', '--stdin'], { input })).stdout.trim()
    return remote.push(['--no-verify', '--force'], [`${blob}:${name}`])
  }

  async function beat(stop: AbortSignal): Promise<void> {
    for (;;) {
      await sleep(times.heartbeat, stop, signal)
      if (stop.aborted || signal.aborted) return
      // After a failure, the next one may succeed.
      await refresh().catch(() => {})
    }
  }

  /**
   * Returns the tickets to wait for, and those whose owners have not refreshed them for the grace
   * time.
   */
  function older(refs: Refs, now: number) {
    const tickets = [...refs].filter(([ref]) => ref.startsWith(folder) && ref < name && !ref.endsWith(suffix))
    for (const [ref, value] of tickets)
      if (seen.get(ref)?.value !== value) seen.set(ref, { value, since: now })
    const isStale = ([ref]: [string, string]) => now - (seen.get(ref)?.since ?? now) >= times.grace
    return { ahead: tickets.filter((ticket) => !isStale(ticket)).length, stale: tickets.filter(isStale) }
  }

  return {
    async turn(refs, time) {
      let current = refs
      if (name === '') {
        name = own(refs).sort()[0] ?? `${folder}${time.toISOString().replace(/[-:.]/g, '')}${suffix}`
        const refused = await refresh()
        if (refused) throw new LandingEnd('unanswered', `the server refused the ticket ${name}: ${refused}`)
        // One that was published meanwhile may be older.
        current = await look()
      }
      if (!heart) {
        const stop = new AbortController()
        heart = { stop, stopped: beat(stop.signal) }
      }
      let announced = 0
      for (const start = performance.now(); ; ) {
        const now = performance.now()
        const { ahead, stale } = older(current, now)
        // Unless somebody has refreshed it meanwhile.
        const leases = stale.map(([ref, value]) => `--force-with-lease=${ref}:${value}`)
        if (stale.length > 0)
          await remote.push(
            ['--no-verify', ...leases],
            stale.map(([ref]) => `:${ref}`),
          )
        if (ahead === 0 || waited >= 2 * times.grace) return current
        if (left() <= 0)
          throw new LandingEnd('pending', `timed out while waiting for ${ahead} older tickets on ${branch}`)
        if (ahead !== announced) say(`waiting for older tickets on ${branch}: ${ahead}`)
        announced = ahead
        const pause = pauseAfter(now - start, times.interval) * Math.min(ahead, 3)
        await sleep(Math.min(pause, 2 * times.grace - waited, left()), signal)
        signal.throwIfAborted()
        current = await look()
        waited += performance.now() - now
      }
    },
    async stop() {
      heart?.stop.abort()
      await heart?.stopped
      heart = undefined
    },
    isPublished: () => name !== '',
    own,
  }
}

import { randomUUID } from 'node:crypto'
import { pauseAfter } from '../../poll.ts'
import { sleep } from '../../sleep.ts'
import { type Git, reasonOf, TOPICS } from '../git.ts'
import { say } from '../terminal.ts'
import { LandingEnd } from './landing-end.ts'
import { type Refs, type Remote, removalOf } from './remote.ts'

/** Times in milliseconds. */
export interface TicketTimes {
  /** How often a ticket is renewed. One that misses three renewals is passed over. */
  heartbeat: number
  /**
   * A ticket that has not changed for this time is removed; after twice this time in all, every
   * ticket is passed over.
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
  /**
   * Removes older tickets that have become stale since `turn` passed them over. Otherwise, each landing
   * that is quick enough would wait for them anew.
   */
  sweep(refs: Refs): Promise<void>
  /**
   * Shows others that the landing goes on. Returns why the server refused, or undefined.
   *
   * @throws LandingEnd if the ticket cannot be written here, or the push gets no answer
   */
  renew(): Promise<string | undefined>
}

/** A landing, as far as tickets depend on it. */
export interface TicketOptions {
  git: Git
  remote: Remote
  /** Name of the target. */
  branch: string
  commit: string
  times: TicketTimes
  /**
   * What this landing has pushed and may have left on the server, as `VALUE:REF`. The answer to a push can be
   * lost, so each is added before it.
   */
  created: Set<string>
  /** Returns the target, the topics and the tickets on the server. */
  readRefs(): Promise<Refs>
  /** Milliseconds until the landing times out. */
  left(): number
  signal: AbortSignal
}

/** A ticket as a landing sees it that waits for it. */
interface SeenTicket {
  ref: string
  value: string
  /** When this value was first seen. */
  since: Date
  /**
   * Milliseconds since then, without those in which the server did not answer, or this machine slept:
   * its owner could not renew it, or this landing could not see that.
   */
  silence: number
}

/** A ticket that has missed so many renewals is passed over. */
const MISSED_RENEWALS = 3
/** Any writer can forge thousands of tickets; one push removes no more than this. */
const MOST_REMOVED = 20
/** Maximum number of tickets that a message names. */
const MOST_NAMED = 3

/** Returns the folder of the tickets for a branch. */
export const ticketFolder = (branch: string) => `refs/landing/${branch}/`

/** Returns the folder of what CI builds for a branch. */
export const topicFolder = (branch: string) => `refs/heads/${TOPICS}${branch}/`

/** Returns the digits that end the names of the topic and the tickets of a commit. */
export const digitsOf = (commit: string) => commit.slice(0, 12)

/** Returns those refs that are the topic and the oldest tickets of a commit. */
export function refsOfCommit(refs: Refs, commit: string, branch: string): string[] {
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
 *              │  │      └─ killed, locked out: the ticket no longer changes; others pass it over after three missed renewals,
 *              │  │         and whoever still waits or lands after the grace time removes it with the topic
 *              └──┘ an older ticket changes, for at most two grace times in all
 * ```
 *
 * Any writer can forge, refresh or remove tickets. So they decide nothing but who waits, and for
 * how long is bounded. Two that have the turn at once lose time; what gets to the branch is up to
 * the server. One that runs again takes over its former ticket.
 */
export function createTickets(options: TicketOptions): Tickets {
  const { git, remote, branch, commit, times, created, readRefs, left, signal } = options
  const folder = ticketFolder(branch)
  const passOver = MISSED_RENEWALS * times.heartbeat
  const seen = new Map<string, SeenTicket>()
  const said = new Set<string>()
  let name = ''
  let renewed = 0
  /** When the older tickets were last seen, and the outages until then. */
  let last = { time: 0, outages: 0 }
  let waited = 0

  async function renew(): Promise<string | undefined> {
    renewed = performance.now()
    // No other landing of this commit pushes the same value.
    const input = `${commit} ${randomUUID()}\n`
    const written = await git(['hash-object', '-w', '--stdin'], { input })
    // Without an object, the update would be the removal of the ticket.
    if (written.code !== 0)
      throw new LandingEnd('unanswered', `cannot write the ticket in this checkout: ${reasonOf(written)}`)
    const update = `${written.stdout.trim()}:${name}`
    created.add(update)
    return remote.push(['--force'], [update])
  }

  /** Returns the older tickets, oldest first, so many milliseconds after the last time. */
  function older(refs: Refs, passed: number): SeenTicket[] {
    last = { time: performance.now(), outages: remote.outages() }
    const tickets = [...refs].filter(([ref]) => ref.startsWith(folder) && ref < name)
    return tickets.map(([ref, value]) => {
      const before = seen.get(ref)
      const ticket =
        before?.value === value
          ? { ...before, silence: before.silence + passed }
          : { ref, value, since: new Date(), silence: 0 }
      seen.set(ref, ticket)
      return ticket
    })
  }

  const topicOf = (ticket: string) => topicFolder(branch) + ticket.slice(ticket.lastIndexOf('-') + 1)

  /** Returns those of some tickets and their topics that are on the server. */
  function withTopics(tickets: readonly string[], refs: Refs): string[] {
    return [...tickets, ...new Set(tickets.map(topicOf))].filter((ref) => refs.has(ref))
  }

  /** Removes some tickets with their topics, unless one was renewed meanwhile. */
  async function remove(tickets: readonly string[], refs: Refs): Promise<void> {
    const gone = withTopics(tickets.slice(0, MOST_REMOVED), refs)
    const leases = gone.map((ref) => `--force-with-lease=${ref}:${refs.get(ref)}`)
    await remote.push(
      ['--atomic', ...leases],
      gone.map((ref) => `:${ref}`),
    )
  }

  /** Says once which tickets are silent, and once which are passed over. */
  function sayWhatIsSilent(tickets: readonly SeenTicket[], refs: Refs): void {
    const isNew = (text: string) => !said.has(text) && said.add(text)
    const late = tickets.filter(({ silence }) => silence >= 1.5 * times.heartbeat)
    const passed = late.filter(({ silence }) => silence >= passOver)
    const waitedFor = late.filter((ticket) => !passed.includes(ticket))
    for (const { ref, value, since, silence } of waitedFor.slice(0, MOST_NAMED)) {
      const end = secondOf(new Date(Date.now() + passOver - silence))
      if (isNew(`${ref} ${value}`))
        say(`${ref} has not been renewed since ${secondOf(since)}; it will be passed over at ${end}`)
    }
    for (const { ref, since } of passed.slice(0, MOST_NAMED)) {
      if (isNew(ref))
        say(
          `passed over ${ref}, not renewed since ${secondOf(since)}; if its landing has ended, remove it: ${removalOf(withTopics([ref], refs))}`,
        )
    }
  }

  return {
    async turn(refs, time) {
      let current = refs
      if (name === '') {
        const own = refsOfCommit(refs, commit, branch).find((ref) => ref.startsWith(folder))
        name = own ?? `${folder}${time.toISOString().replace(/[-:.]/g, '')}-${digitsOf(commit)}`
        const refused = await renew()
        if (refused) throw new LandingEnd('unanswered', `the server refused the ticket ${name}: ${refused}`)
        // One that was published meanwhile may be older.
        current = await readRefs()
      }
      let announced = 0
      let passed = 0
      for (const start = performance.now(); ; ) {
        const now = performance.now()
        const tickets = older(current, passed)
        const stale = tickets.filter(({ silence }) => silence >= times.grace).map(({ ref }) => ref)
        if (stale.length > 0) await remove(stale, current)
        const kept = tickets.filter(({ silence }) => silence < times.grace)
        sayWhatIsSilent(kept, current)
        const ahead = kept.filter(({ silence }) => silence < passOver).length
        if (ahead === 0 || waited >= 2 * times.grace) return current
        if (left() <= 0)
          throw new LandingEnd('pending', `timed out while waiting for ${ahead} older tickets on ${branch}`)
        if (ahead !== announced) say(`waiting for older tickets on ${branch}: ${ahead}`)
        announced = ahead
        const untilRenewal = renewed + times.heartbeat - now
        const longest = pauseAfter(now - start, times.interval) * Math.min(ahead, 3)
        const pause = Math.max(0, Math.min(longest, untilRenewal, 2 * times.grace - waited, left()))
        const outagesBefore = remote.outages()
        await sleep(pause, signal)
        const overslept = performance.now() - now - pause
        signal.throwIfAborted()
        // After a failure, the next one may succeed.
        if (performance.now() - renewed >= times.heartbeat) await renew().catch(() => {})
        current = await readRefs()
        const elapsed = performance.now() - now
        waited += elapsed
        passed = elapsed - overslept - (remote.outages() - outagesBefore)
      }
    },
    async sweep(refs) {
      const elapsed = performance.now() - last.time - (remote.outages() - last.outages)
      // A machine that slept has not seen more.
      const passed = Math.max(0, Math.min(elapsed, times.heartbeat))
      const stale = older(refs, passed).filter(({ silence }) => silence >= times.grace)
      if (stale.length > 0)
        await remove(
          stale.map(({ ref }) => ref),
          refs,
        )
    },
    renew,
  }
}

/** Returns a time to the second: `2026-11-28T12:00:00Z`. */
function secondOf(time: Date): string {
  return time.toISOString().replace(/\.\d+/, '')
}

import { FairQueue } from '../schedule/fair-queue.ts'
import type { GitService } from './service.ts'

/**
 * Requests that may wait for a place, in total and from one client. The total is many times the
 * limit of one client, so that a few clients cannot fill it.
 */
const WAITING = 1024
const WAITING_PER_CLIENT = 128
/** Milliseconds that git may wait for its client although others wait for the place. */
const GRACE_PERIOD = 250

/** A git process that waits until its client has read more. */
interface Paused {
  client: string
  isLong: boolean
  since: number
  giveUp(): boolean
}

/**
 * Places for git processes. In each share of the places one client holds at most half, but at least
 * one. The same holds for long callers, and for each client among them.
 */
export class GitPlaces extends FairQueue {
  /** In the order in which they were paused. */
  readonly #paused = new Set<Paused>()
  #timer: NodeJS.Timeout | undefined

  constructor(places: number, maxWait: number) {
    const half = halfOf(places)
    super({
      slots: places,
      slotsPerClient: half,
      long: { slots: half, slotsPerClient: halfOf(half) },
      waiting: WAITING,
      waitingPerClient: WAITING_PER_CLIENT,
      timeout: maxWait,
    })
  }

  /**
   * Says that the client does not need its place until it has read more.
   *
   * @param isLong as in `enter`
   * @param giveUp called when a caller waits that could have the place, first for the client that was paused first.
   * Returns false if git has ended: its client may never read the rest
   * @returns a function to call when the client has read more
   */
  pause(client: string, isLong: boolean, giveUp: () => boolean): () => void {
    const paused = { client, isLong, giveUp, since: performance.now() }
    this.#paused.add(paused)
    this.#timer ??= setInterval(() => this.#review(), GRACE_PERIOD)
    return () => {
      this.#paused.delete(paused)
      if (this.#paused.size > 0) return
      clearInterval(this.#timer)
      this.#timer = undefined
    }
  }

  #review(): void {
    let given = 0
    for (const { client, isLong, since, giveUp } of this.#paused) {
      if (performance.now() - since < GRACE_PERIOD) return
      if (given < this.waitingFor(client, isLong) && giveUp()) given++
    }
  }
}

function halfOf(count: number): number {
  return Math.max(1, Math.floor(count / 2))
}

/**
 * Divides the places for git processes between fetches and pushes. A quarter, at least one, is
 * reserved for pushes. They need write access, so anonymous fetches cannot block them. The list of
 * refs at the start of a fetch or push takes a place of the same share. A single place serves both.
 * See `GitLimits` for the numbers.
 */
export function createGitPlaces(places: number, maxWait: number): Record<GitService, GitPlaces> {
  const pushes = Math.max(1, Math.floor(places / 4))
  const push = new GitPlaces(pushes, maxWait)
  const fetch = places === pushes ? push : new GitPlaces(places - pushes, maxWait)
  return { 'git-upload-pack': fetch, 'git-receive-pack': push }
}

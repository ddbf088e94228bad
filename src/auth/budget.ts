import { setTimeout } from 'node:timers/promises'
import { ServiceError } from '../errors.ts'
import { type Failures, RESERVATION_LIFETIME } from '../store/failures.ts'
import type { Store } from '../store/store.ts'
import { FairQueue, QueueFull } from '../util/fair-queue.ts'

export interface BudgetOptions {
  /** Failures that an address may have in one window. */
  limit: number
  /** Length of a window in seconds, from an address's first failure. */
  window: number
}

/** The failed-authentication budget of each address, shared by the API, git, the sign-in page and `/metrics`. */
export interface Budget {
  /** Checks the failures alone, not the attempts in flight. @throws ServiceError `blocked` when the budget is spent */
  check(address: string): Promise<void>
  /** Does the same for failures that the caller has read already. */
  judge(failures: Failures | null): void
  /**
   * Counts the failure of a credential that is too long to guess: a token that the database does not know.
   *
   * @throws ServiceError `blocked` when the budget was spent meanwhile: of any number of failures at once, exactly
   * `limit` return; `authentication_busy`
   */
  count(address: string): Promise<void>
  /**
   * Compares a secret that can be guessed, such as a password, with a place reserved in the address's budget: of any
   * number of attempts at once, in any number of processes, exactly `limit` compare a wrong one. Every path on which such
   * a secret is checked calls this.
   *
   * @param compare returns null when the secret is wrong, which counts as a failure
   * @param signal ends the wait of an attempt that nobody waits for any more
   * @returns what `compare` returned
   * @throws ServiceError `blocked` or `authentication_busy` without a comparison; any error of `compare`, which counts
   * nothing
   */
  attempt<T>(address: string, compare: () => Promise<T | null>, signal?: AbortSignal): Promise<T | null>
}

/** The budget of an address is spent. */
export class Blocked extends ServiceError {
  /** Whole seconds until the next attempt is looked at, at least 1. */
  readonly retryAfter: number

  /** @param endsIn milliseconds */
  constructor(endsIn: number) {
    const seconds = Math.max(1, Math.ceil(endsIn / 1000))
    super(
      'blocked',
      `Too many failed authentication attempts from this address. Try again in ${seconds} seconds.`,
    )
    this.retryAfter = seconds
  }
}

export interface BudgetEvents {
  /** Called for each failure that is counted. */
  failed?(): void
  /** Called once for each window in which an address spends its budget. */
  blocked(address: string): void
}

/**
 * An address has one attempt in progress in each process: it holds a reservation, or waits until another process gives
 * one back. Attempts of different addresses run side by side, so an attempt waits for at most one comparison of each
 * other address. The timeout is in milliseconds.
 */
const TURNS = { places: 64, placesPerClient: 1, waiting: 2_048, waitingPerClient: 2_048, timeout: 20_000 }
/** Milliseconds for which an attempt waits for reservations of other processes, and between two tries. */
const PATIENCE = 5_000
const POLL = 50
/** Milliseconds for which a failure is written again while the database is away, and between two tries. */
const PERSISTENCE = 20_000
const PAUSE = 500

export function createBudget(
  failures: Store['failures'],
  limits: BudgetOptions,
  events: BudgetEvents,
): Budget {
  const turns = new FairQueue(TURNS)
  /** Reads in progress by address. Attempts that arrive together share one: what lets them through is a reservation. */
  const reads = new Map<string, Promise<Failures | null>>()

  function judge(found: Failures | null): void {
    if (!found || found.failures < limits.limit) return
    // No window has more than its length left: the clock was set back, and the block is over.
    if (found.endsIn <= limits.window * 1000) throw new Blocked(found.endsIn)
  }

  function find(address: string): Promise<Failures | null> {
    const known = reads.get(address)
    if (known) return known
    const read = failures.find(address).finally(() => reads.delete(address))
    reads.set(address, read)
    return read
  }

  async function check(address: string): Promise<void> {
    try {
      judge(await find(address))
    } catch (error) {
      // Attempts that wait for their turn get the same answer.
      if (error instanceof Blocked) turns.dismiss(address, error)
      throw error
    }
  }

  /** Waits for the address's turn. */
  async function inTurn<T>(address: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    try {
      return await turns.run(address, work, signal)
    } catch (error) {
      throw error instanceof QueueFull
        ? new ServiceError('authentication_busy', undefined, { cause: error })
        : error
    }
  }

  /**
   * Repeats `step` until it finds room, as long as failures alone leave some: the rest is taken by reservations of other
   * processes, which may give it back.
   *
   * @param since arrival of the attempt, by `performance.now()`
   */
  async function whenRoom<T>(address: string, since: number, step: () => Promise<T | null>): Promise<T> {
    for (;;) {
      const done = await step()
      if (done !== null) return done
      await check(address)
      if (performance.now() - since > PATIENCE) {
        throw new Blocked(Math.min(RESERVATION_LIFETIME, limits.window * 1000))
      }
      await setTimeout(POLL)
    }
  }

  function counted(address: string, { failures: number }: Failures): void {
    events.failed?.()
    if (number === limits.limit) events.blocked(address)
  }

  return {
    check,
    judge,

    async count(address) {
      const since = performance.now()
      const count = () => failures.count(address, limits)
      const first = await count()
      if (first) return counted(address, first)
      await check(address)
      counted(address, await inTurn(address, () => whenRoom(address, since, count)))
    },

    attempt(address, compare, signal) {
      const since = performance.now()
      const count = () => failures.count(address, limits)
      const work = async () => {
        const reservation = await whenRoom(address, since, () => failures.reserve(address, limits))
        const right = await compare().catch(async (error) => {
          // If that fails too, the reservation expires by itself.
          await reservation.release().catch(() => {})
          throw error
        })
        if (right !== null) await reservation.release()
        else counted(address, (await persist(reservation.fail)) ?? (await whenRoom(address, since, count)))
        return right
      }
      return inTurn(address, work, signal)
    },
  }
}

/** Repeats a write that fails: a wrong secret that was compared must count, whatever the state of the database. */
async function persist<T>(write: () => Promise<T>): Promise<T> {
  const since = performance.now()
  for (;;) {
    try {
      return await write()
    } catch (error) {
      if (performance.now() - since > PERSISTENCE) throw error
      await setTimeout(PAUSE)
    }
  }
}

import { setTimeout } from 'node:timers/promises'
import { ServiceError, TryLater } from '../errors.ts'
import { FairQueue, QueueFull } from '../schedule/fair-queue.ts'
import type { FailedAttempt, FailureLimits, Failures } from '../store/failures/failures.ts'
import { RESERVATION_LIFETIME } from '../store/failures/statements.ts'
import type { Store } from '../store/store.ts'
import { inMilliseconds, type Milliseconds } from '../store/time.ts'
import { insteadOf, Unavailable } from '../util/expected-errors.ts'
import { persist } from '../util/persist.ts'

/** The budget of an address is spent. */
class Blocked extends TryLater {
  /** @param endsIn how long until attempts are accepted again */
  constructor(endsIn: Milliseconds) {
    const seconds = Math.max(1, Math.ceil(endsIn / 1000))
    super(
      'blocked',
      seconds,
      `Too many failed authentication attempts from this address. Try again in ${seconds} seconds.`,
    )
  }
}

interface BudgetEvents {
  /** Called for each counted failure. */
  failed?(): void
  /** Called once per window in which an address spends its budget. */
  blocked(address: string): void
}

/**
 * An attempt in progress holds a reservation, or waits for another process to release one. Attempts
 * of different addresses run concurrently, so with one at once an attempt waits for at most one
 * comparison per other address. The timeout is in milliseconds.
 */
const QUEUE = { slots: 64, waiting: 2_048, waitingPerClient: 2_048, timeout: 20_000 }
/**
 * How long an attempt waits for reservations of other processes, and how often it retries, in
 * milliseconds.
 */
const RESERVATION_WAIT = 5_000
const RESERVATION_RETRY = 50

export type Budget = ReturnType<typeof createBudget>

/**
 * Returns the failed-authentication budget per address, shared by the API, git, the sign-in page
 * and `/metrics`.
 *
 * @param atOnce attempts of one address in progress in this process; more than one for attempts
 * that only wait
 */
export function createBudget(
  failures: Store['failures'],
  limits: FailureLimits,
  events: BudgetEvents,
  atOnce = 1,
) {
  const queue = new FairQueue({ ...QUEUE, slotsPerClient: atOnce })
  /**
   * Reads in progress by address. Concurrent attempts can share one, since only a reservation
   * admits an attempt.
   */
  const reads = new Map<string, Promise<Failures | null>>()

  /** Does the same as `check` for failures that the caller has already read. */
  function enforce({ failures, endsIn }: Failures): void {
    if (failures < limits.limit) return
    // A window cannot have more than its whole length left: the clock was set back, so the block is
    // over.
    if (endsIn <= inMilliseconds(limits.window)) throw new Blocked(endsIn)
  }

  function find(address: string): Promise<Failures | null> {
    const pending = reads.get(address)
    if (pending) return pending
    const read = failures.find(address).finally(() => reads.delete(address))
    reads.set(address, read)
    return read
  }

  /**
   * Checks recorded failures only, not attempts in flight.
   *
   * @throws ServiceError `blocked` when the budget is spent
   */
  async function check(address: string): Promise<void> {
    try {
      const recorded = await find(address)
      if (recorded) enforce(recorded)
    } catch (error) {
      // Queued attempts get the same answer.
      if (error instanceof Blocked) queue.dismiss(address, error)
      throw error
    }
  }

  /** Runs `work` when no other attempt of the address is in progress. */
  async function runQueued<T>(address: string, work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    try {
      return await queue.run({ address, signal }, work)
    } catch (error) {
      throw error instanceof QueueFull
        ? new ServiceError('authentication_busy', undefined, { cause: error })
        : error
    }
  }

  /**
   * Repeats `step` until there is room in the budget. Gives up when failures alone fill it;
   * reservations of other processes may still be released.
   *
   * @param step returns null when there is no room
   * @param since when the attempt arrived, by `performance.now()`
   */
  async function retryForRoom<T>(address: string, since: number, step: () => Promise<T | null>): Promise<T> {
    for (;;) {
      const done = await step()
      if (done !== null) return done
      await check(address)
      if (performance.now() - since > RESERVATION_WAIT) {
        throw new Blocked(Math.min(RESERVATION_LIFETIME, inMilliseconds(limits.window)))
      }
      await setTimeout(RESERVATION_RETRY)
    }
  }

  function counted(address: string, { failures: number }: Failures): void {
    events.failed?.()
    if (number === limits.limit) events.blocked(address)
  }

  return {
    check,
    enforce,

    /**
     * Counts a failure of a credential that cannot be guessed, such as an unknown token.
     *
     * @param attempt what it was an attempt at. Default: a token
     * @throws ServiceError `blocked` when the budget was spent in the meantime: of any number of
     * concurrent failures, exactly `limit` calls return; `authentication_busy`
     */
    async count(address: string, attempt?: FailedAttempt): Promise<void> {
      const since = performance.now()
      const count = () => failures.count(address, limits, attempt)
      const first = await count()
      if (first) return counted(address, first)
      await check(address)
      counted(address, await runQueued(address, () => retryForRoom(address, since, count)))
    },

    /**
     * Compares a secret that can be guessed, such as a password, while holding a reservation in the
     * address's budget: of any number of concurrent attempts in any number of processes, exactly
     * `limit` compare a wrong secret. Every code path that checks such a secret must call this.
     *
     * @param compare returns null when the secret is wrong, which counts as a failure
     * @param failed returns what it was an attempt at; called when the secret is wrong
     * @param signal cancels the wait when the client has disconnected
     * @returns what `compare` returned
     * @throws ServiceError `blocked` or `authentication_busy` without a comparison; any error from
     * `compare`, which does not count as a failure
     */
    attempt<T>(
      address: string,
      compare: () => Promise<T | null>,
      failed: () => FailedAttempt,
      signal?: AbortSignal,
    ): Promise<T | null> {
      const since = performance.now()
      const count = () => failures.count(address, limits, failed())
      const work = async () => {
        const reservation = await retryForRoom(address, since, () => failures.reserve(address, limits))
        const right = await compare().catch(async (error: unknown) => {
          // If this fails too, the reservation expires.
          await reservation.release().catch(insteadOf(Unavailable, undefined))
          throw error
        })
        if (right !== null) await reservation.release()
        // A wrong secret that was compared must count, even while the database is unavailable.
        else
          counted(
            address,
            (await persist(() => reservation.fail(failed()))) ?? (await retryForRoom(address, since, count)),
          )
        return right
      }
      return runQueued(address, work, signal)
    },
  }
}

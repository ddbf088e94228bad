import { ServiceError } from '../errors.ts'
import type { Failures } from '../store/failures.ts'
import type { Store } from '../store/store.ts'

export interface BudgetOptions {
  /** Failures that an address may have in one window. */
  limit: number
  /** Length of a window in seconds, from an address's first failure. */
  window: number
}

/** The failed-authentication budget of each address, shared by the API, git and the sign-in page. */
export interface Budget {
  /** @throws ServiceError `blocked` when the address's budget is spent */
  check(address: string): Promise<void>
  /** The same, where what was counted is known already. */
  judge(failures: Failures | null): void
  /**
   * Counts a failure.
   *
   * @throws ServiceError `blocked` when the budget was spent meanwhile: of any number of attempts at once, exactly as
   * many as the budget holds are told that they failed
   */
  count(address: string): Promise<void>
}

/** The budget of an address is spent. */
export class Blocked extends ServiceError {
  /** Whole seconds until the next attempt is looked at, at least 1. */
  readonly retryAfter: number

  constructor({ endsIn }: Failures) {
    const seconds = Math.max(1, Math.ceil(endsIn / 1000))
    super(
      'blocked',
      `Too many failed authentication attempts from this address. Try again in ${seconds} seconds.`,
    )
    this.retryAfter = seconds
  }
}

/** What others want to know of a budget. */
export interface BudgetEvents {
  /** A failure was counted. */
  failed?(): void
  /** Once for each window in which an address spends its budget. */
  blocked(address: string): void
}

export function createBudget(
  failures: Store['failures'],
  { limit, window }: BudgetOptions,
  events: BudgetEvents,
): Budget {
  const judge = (found: Failures | null) => {
    if (found && found.failures >= limit) throw new Blocked(found)
  }
  return {
    judge,
    check: async (address) => judge(await failures.find(address)),
    async count(address) {
      const counted = await failures.count(address, window * 1000)
      events.failed?.()
      if (counted.failures === limit) events.blocked(address)
      if (counted.failures > limit) throw new Blocked(counted)
    },
  }
}

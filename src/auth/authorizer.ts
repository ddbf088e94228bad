import { ServiceError } from '../errors.ts'
import type { Store } from '../store/store.ts'
import { type Caller, type Demand, judge } from './access-policy.ts'
import type { Budget } from './budget.ts'
import type { Credential } from './credential.ts'
import { trackTokenUse } from './token-use.ts'

/** Who asks, and from where. */
interface Attempt {
  credential: Credential
  /** As `addressKey` writes it. */
  address: string
}

/** Answers whether a caller may do what is asked. */
export interface Authorizer {
  /**
   * Steps 2 to 6 of the order in which a request is judged.
   *
   * @param owner as sent, as is `name`
   * @throws ServiceError by the first rule that does not hold; StoreUnavailable
   */
  authorize(attempt: Attempt, owner: string, name: string, demand: Demand): Promise<Caller>
  /** Writes what is still to be written. */
  close(): Promise<void>
}

export function createAuthorizer(
  store: Store,
  budget: Budget,
  onError: (error: unknown) => void,
): Authorizer {
  const uses = trackTokenUse(store.tokens, onError)

  return {
    async authorize({ credential, address }, owner, name, demand) {
      if (credential.kind === 'bad') {
        await budget.check(address)
        if (credential.counts) await budget.count(address)
        throw new ServiceError(credential.code)
      }
      const now = Date.now()
      const anonymous = credential.kind === 'none'
      const access = await store.access.look(
        anonymous ? null : address,
        anonymous ? null : credential.hash,
        owner,
        name,
      )
      budget.judge(access.failures)
      try {
        const caller = judge(access, anonymous, demand, now)
        if (access.token) uses.used(access.token, Math.floor(now / 1000))
        return caller
      } catch (error) {
        const failed = error instanceof ServiceError && error.code === 'credential_unknown'
        if (failed) await budget.count(address)
        throw error
      }
    },
    close: () => uses.close(),
  }
}

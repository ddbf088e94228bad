import { ServiceError } from '../errors.ts'
import type { Store } from '../store/store.ts'
import type { Credential } from './credential.ts'
import { type Caller, type Demand, judge } from './judge.ts'
import { trackTokenUse } from './token-use.ts'

/** Answers whether a caller may do what is asked. */
export interface Authorizer {
  /**
   * Steps 2 to 6 of the order in which a request is judged.
   *
   * @param owner as sent, as is `name`
   * @throws ServiceError by the first rule that does not hold; StoreUnavailable
   */
  authorize(credential: Credential, owner: string, name: string, demand: Demand): Promise<Caller>
  /** Writes what is still to be written. */
  close(): Promise<void>
}

export function createAuthorizer(store: Store, onError: (error: unknown) => void): Authorizer {
  const uses = trackTokenUse(store.tokens, onError)
  return {
    async authorize(credential, owner, name, demand) {
      if (credential.kind === 'bad') throw new ServiceError(credential.code)
      const now = Date.now()
      const anonymous = credential.kind === 'none'
      const access = await store.access.look(anonymous ? null : credential.hash, owner, name)
      const caller = judge(access, anonymous, demand, now)
      if (access.token) uses.used(access.token, Math.floor(now / 1000))
      return caller
    },
    close: () => uses.close(),
  }
}

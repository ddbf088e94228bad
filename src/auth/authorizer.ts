import { ServiceError } from '../errors.ts'
import type { Store } from '../store/store.ts'
import { applyAccessPolicy, type Caller, RenamedError, type Requirement } from './access-policy.ts'
import type { Budget } from './budget.ts'
import type { Credential } from './credential.ts'
import { createTokenUseTracker, type TokenUseLog } from './token-use.ts'

export type Authorizer = ReturnType<typeof createAuthorizer>

/** Returns what decides whether a caller may perform an operation on a repository. */
export function createAuthorizer(
  store: {
    access: Store['access']
    listing: Pick<Store['listing'], 'findRenamed'>
    tokens: Pick<Store['tokens'], 'touch'>
  },
  budget: Budget,
  log: TokenUseLog,
) {
  const uses = createTokenUseTracker(store.tokens, log)

  return {
    /**
     * Runs steps 2 to 6 of the order of checks.
     *
     * @param attempt a request's credential, and its address as returned by `addressKey`
     * @param owner as received, like `name`
     * @param again whether the request has passed step 2 before: it is served, whoever has spent the
     * budget since
     * @throws ServiceError for the first rule that is broken; StoreUnavailable
     */
    async authorize(
      { credential, address }: { credential: Credential; address: string },
      owner: string,
      name: string,
      requirement: Requirement,
      again = false,
    ): Promise<Caller> {
      if (credential.kind === 'bad') {
        await budget.check(address)
        if (credential.counts) await budget.count(address)
        throw new ServiceError(credential.code)
      }
      const now = Date.now()
      const anonymous = credential.kind === 'none'
      const access = await store.access.find(
        anonymous ? null : address,
        anonymous ? null : credential.hash,
        owner,
        name,
      )
      if (access.failures && !again) budget.enforce(access.failures)
      try {
        const caller = applyAccessPolicy(access, anonymous, requirement, now)
        if (access.token) uses.record(access.token, Math.floor(now / 1000))
        return caller
      } catch (error) {
        const code = error instanceof ServiceError ? error.code : null
        if (code === 'credential_unknown') await budget.count(address)
        const isMissing = code === 'repository_unknown' || (anonymous && code === 'credential_missing')
        if (!isMissing || access.repository) throw error
        const renamed = await store.listing.findRenamed(access.token?.userId ?? null, owner, name)
        const isExcluded = renamed && access.token?.limits.repositories?.includes(renamed.id) === false
        throw renamed && (!isExcluded || renamed.visibility === 'public')
          ? new RenamedError(anonymous, renamed)
          : error
      }
    },
    /** Writes pending last-use times. */
    close: uses.close,
  }
}

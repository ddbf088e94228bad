import { ServiceError } from '../../errors.ts'
import { hasEnded } from '../session-lifetime.ts'
import { nowInSeconds, type Seconds } from '../time.ts'
import { checkToken, signInDue } from '../token-validity.ts'
import type { SignedIn, SigningIn, TokenHolder } from './audit.ts'
import type { Change } from './change.ts'

/**
 * Checks that a user may still act: is not locked, and has the session or the token, or the account
 * that was read when the user signed in. These rows are locked: what ends sessions of the user, for
 * example, comes before or after the change.
 *
 * @param signInEvery see `StoreOptions`
 * @throws ServiceError `session_ended`, or `credential_unknown` for a token
 */
export async function checkUser(
  change: Pick<Change, 'db' | 'locked'>,
  by: SignedIn | TokenHolder | SigningIn,
  signInEvery: Seconds,
): Promise<void> {
  const user = change.db
    .selectFrom('users')
    .select('users.id')
    .where('users.id', '=', by.user.id)
    .where('users.locked_at', 'is', null)
  if (by.token) {
    const tokens = user
      .innerJoin('tokens', 'tokens.user_id', 'users.id')
      .select(['expires_at', 'signed_in_at'])
      .where('tokens.id', '=', by.token.id)
    const token = await change.locked(tokens).executeTakeFirst()
    const times = token && {
      expiresAt: token.expires_at,
      signInDue: signInDue(token.signed_in_at, signInEvery),
    }
    checkToken(times ?? null, Date.now())
    return
  }
  if (by.account) {
    const account = user
      .where('password_hash', 'is not distinct from', by.account.passwordHash)
      .where('oidc_subject', 'is not distinct from', by.account.subject)
    if (!(await change.locked(account).executeTakeFirst())) throw new ServiceError('session_ended')
    return
  }
  const session = user
    .innerJoin('sessions', 'sessions.user_id', 'users.id')
    .where('sessions.hash', '=', by.session)
    .where((eb) => eb.not(hasEnded(nowInSeconds())))
  if (!(await change.locked(session).executeTakeFirst())) throw new ServiceError('session_ended')
}

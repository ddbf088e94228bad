import type { Transaction } from 'kysely'
import { ServiceError } from '../../errors.ts'
import { hasEnded } from '../session-lifetime.ts'
import type { Tables } from '../tables.ts'
import { nowInSeconds } from '../time.ts'
import { checkToken, signInDue } from '../token-validity.ts'
import type { SignedIn, SigningIn, TokenHolder } from './audit.ts'

/**
 * Checks that a user may still act: is not locked, and has the session or the token, or the account
 * that was read when the user signed in. That account is locked until the end of the transaction.
 *
 * @param signInEvery see `StoreOptions`
 * @throws ServiceError `session_ended`, or `credential_unknown` for a token
 */
export async function checkUser(
  db: Transaction<Tables>,
  by: SignedIn | TokenHolder | SigningIn,
  signInEvery: number,
): Promise<void> {
  const { id } = by.user
  if (by.token) {
    const token = await db
      .selectFrom('tokens')
      .innerJoin('users', 'users.id', 'tokens.user_id')
      .select(['expires_at', 'signed_in_at'])
      .where('tokens.id', '=', by.token.id)
      .where('users.id', '=', id)
      .where('users.locked_at', 'is', null)
      .executeTakeFirst()
    const times = token && {
      expiresAt: token.expires_at,
      signInDue: signInDue(token.signed_in_at, signInEvery),
    }
    checkToken(times ?? null, Date.now())
    return
  }
  const proof = by.account
    ? // An update that changes nothing locks the row in every dialect: what ends sessions of the user
      // comes before or after.
      db
        .updateTable('users')
        .set({ id })
        .where('id', '=', id)
        .where('password_hash', 'is not distinct from', by.account.passwordHash)
        .where('oidc_subject', 'is not distinct from', by.account.subject)
        .where('locked_at', 'is', null)
        .returning('id')
    : db
        .selectFrom('sessions')
        .innerJoin('users', 'users.id', 'sessions.user_id')
        .select('users.id')
        .where('sessions.hash', '=', by.session)
        .where((eb) => eb.not(hasEnded(nowInSeconds())))
        .where('users.id', '=', id)
        .where('users.locked_at', 'is', null)
  if (!(await proof.executeTakeFirst())) throw new ServiceError('session_ended')
}

import { createHash, randomUUID } from 'node:crypto'
import type { NamedUser, SignedIn } from '../../src/domain/actors.ts'
import type { SessionClient } from '../../src/store/accounts/sessions.ts'
import type { Store } from '../../src/store/store.ts'

export const BROWSER: SessionClient = { address: '192.0.2.1', userAgent: 'Mozilla/5.0' }

/** Stores a session without a sign-in. @param hash SHA-256 of the cookie in hex */
export async function insertSession(store: Store, hash: string, userId: number): Promise<void> {
  const now = Math.floor(Date.now() / 1000)
  await store.engine.kysely
    .insertInto('sessions')
    .values({ hash, user_id: userId, created_at: now, seen_at: now })
    .execute()
}

/** Stores a session of a user. @returns the user as who changes something by it */
export async function signIn(store: Store, { id, name }: NamedUser): Promise<SignedIn> {
  const session = createHash('sha256').update(randomUUID()).digest('hex')
  await insertSession(store, session, id)
  return { kind: 'user', user: { id, name }, address: BROWSER.address, session }
}

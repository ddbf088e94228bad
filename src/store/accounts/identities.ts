import type { Kysely } from 'kysely'
import { RuleViolation } from '../../domain/rule-violation.ts'
import { ADMINISTRATOR, type Audit } from '../audit/audit.ts'
import type { Engine } from '../engine.ts'
import type { Tables } from '../tables.ts'
import { type createUserStore, deleteSessions, getUser, type Identity, linkTo, type User } from './users.ts'

const UNLINKED = { oidc_issuer: null, oidc_subject: null, signed_in_at: null }

/** Returns functions that connect users with their accounts at an OpenID Connect provider. */
export function createIdentityStore(
  { kysely }: Engine,
  audit: Audit,
  users: ReturnType<typeof createUserStore>,
) {
  const find = ({ issuer, subject }: Identity, db: Kysely<Tables> = kysely): Promise<User | undefined> =>
    db
      .selectFrom('users')
      .selectAll()
      .where('oidc_issuer', '=', issuer)
      .where('oidc_subject', '=', subject)
      .executeTakeFirst()

  return {
    /**
     * Returns the user of an account, who may be locked, or creates one.
     *
     * @param name of a new user
     * @throws RuleViolation as `users.create`: nobody gets a user, or the rights of a name, by having that name elsewhere
     */
    async findOrCreate(identity: Identity, name: string, address: string): Promise<User> {
      const known = await find(identity)
      if (known) return known
      return users.create(name, { identity, address }).catch(async (error: unknown) => {
        // Another sign-in of the same person may have created the user meanwhile.
        const created = error instanceof RuleViolation && (await find(identity))
        if (created) return created
        throw error
      })
    },

    /**
     * Links a user to an account, which is then the only way to sign in, or unlinks it. Ends the user's sessions.
     *
     * @param identity null removes the link, and with it the limit of the user's tokens
     * @returns how many sessions; null if there is nothing to change
     * @throws RuleViolation if there is no such user, or the user or the account is linked to another one
     */
    link(name: string, identity: Identity | null): Promise<number | null> {
      return audit.transaction(async (db, record) => {
        const user = await getUser(db, name)
        const holder = identity && (await find(identity, db))
        if (identity ? holder?.id === user.id : user.oidc_issuer === null) return null
        if (holder)
          throw new RuleViolation(`the account is linked to the user "${holder.name}"; unlink that one first`)
        if (identity && user.oidc_issuer !== null)
          throw new RuleViolation(`"${name}" is linked to another account; run "user unlink" first`)
        const columns = identity ? linkTo(identity) : UNLINKED
        await db.updateTable('users').set(columns).where('id', '=', user.id).execute()
        const sessions = await deleteSessions(db, user.id)
        const details = { issuer: identity?.issuer ?? user.oidc_issuer, sessions }
        const action = identity ? 'user.linked' : 'user.unlinked'
        await record({ by: ADMINISTRATOR, action, user, details })
        return sessions
      })
    },
  }
}

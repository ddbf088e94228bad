import type { Kysely, Selectable } from 'kysely'
import type { Engine } from './engine.ts'
import { isOwnerName, nameKey, OWNER_NAME_RULE } from './names.ts'
import { RuleViolation } from './rule-violation.ts'
import type { Tables } from './tables.ts'
import { nowInSeconds } from './time.ts'

export type User = Selectable<Tables['users']>

/** Returns functions that manage users: people and machines that own tokens. */
export function userStore({ kysely }: Engine) {
  return {
    /**
     * Creates a user.
     *
     * @param ownExisting allows the name of an owner of existing repositories, to which the user then has write access
     * @throws RuleViolation if the name is invalid, taken or reserved, or owns repositories without `ownExisting`
     */
    async create(
      name: string,
      options: { passwordHash?: string; ownExisting?: boolean } = {},
    ): Promise<User> {
      if (!isOwnerName(name))
        throw new RuleViolation(`"${name}" is not a valid user name: ${OWNER_NAME_RULE}`)
      return kysely.transaction().execute(async (trx) => {
        const user = await trx
          .insertInto('users')
          .values({
            name,
            name_key: nameKey(name),
            password_hash: options.passwordHash ?? null,
            created_at: nowInSeconds(),
          })
          .onConflict((conflict) => conflict.column('name_key').doNothing())
          .returningAll()
          .executeTakeFirst()
        if (!user) throw new RuleViolation(`there is already a user "${name}"`)
        if (!options.ownExisting && (await ownsRepositories(trx, name))) {
          throw new RuleViolation(
            `"${name}" already owns repositories, which the user could write to; allow this with --own-existing`,
          )
        }
        return user
      })
    },

    find(name: string): Promise<User | undefined> {
      return kysely.selectFrom('users').selectAll().where('name_key', '=', nameKey(name)).executeTakeFirst()
    },

    async any(): Promise<boolean> {
      return (await kysely.selectFrom('users').select('id').limit(1).executeTakeFirst()) !== undefined
    },

    list(): Promise<User[]> {
      return kysely.selectFrom('users').selectAll().orderBy('name_key').execute()
    },

    /**
     * Deletes a user with all tokens, sessions and permissions. Statuses stay.
     *
     * @throws RuleViolation if there is no such user, or while the user owns repositories, which the next user of that
     * name would inherit
     */
    delete(name: string): Promise<void> {
      return kysely.transaction().execute(async (trx) => {
        if (await ownsRepositories(trx, name)) {
          throw new RuleViolation(`"${name}" owns repositories; delete those first`)
        }
        const deleted = await trx
          .deleteFrom('users')
          .where('name_key', '=', nameKey(name))
          .returning('id')
          .executeTakeFirst()
        if (!deleted) throw new RuleViolation(`there is no user "${name}"`)
      })
    },
  }
}

async function ownsRepositories(db: Kysely<Tables>, name: string): Promise<boolean> {
  const owned = db.selectFrom('repositories').select('id').where('owner_key', '=', nameKey(name)).limit(1)
  return (await owned.executeTakeFirst()) !== undefined
}

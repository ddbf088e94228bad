import { randomBytes } from 'node:crypto'
import { type Selectable, sql } from 'kysely'
import type { Engine } from './engine.ts'
import { RuleViolation } from './rule-violation.ts'
import type { Tables } from './tables.ts'
import { nowInSeconds } from './time.ts'

/** A token as shown to its owner. */
export type TokenInfo = Omit<Selectable<Tables['tokens']>, 'hash' | 'user_id'>

const shown = ['id', 'name', 'prefix', 'scopes', 'created_at', 'expires_at', 'last_used_at'] as const

export interface NewToken {
  userId: number
  name: string
  prefix: string
  hash: string
  scopes: string[]
  /** Milliseconds since the epoch; null if it does not expire. */
  expiresAt: number | null
}

/** Returns functions that manage personal access tokens. Only a hash of a token is stored. */
export function tokenStore({ kysely, dialect }: Engine) {
  return {
    create(token: NewToken): Promise<TokenInfo> {
      return kysely
        .insertInto('tokens')
        .values({
          id: randomBytes(8).toString('hex'),
          user_id: token.userId,
          name: token.name,
          prefix: token.prefix,
          hash: token.hash,
          scopes: token.scopes.join(' '),
          created_at: nowInSeconds(),
          expires_at: token.expiresAt,
          last_used_at: null,
        })
        .returning(shown)
        .executeTakeFirstOrThrow()
    },

    /** Returns a user's tokens, newest first. */
    list(userId: number): Promise<TokenInfo[]> {
      return kysely
        .selectFrom('tokens')
        .select(shown)
        .where('user_id', '=', userId)
        .orderBy('created_at', 'desc')
        .orderBy('id')
        .execute()
    },

    /**
     * Deletes a token. Takes effect at the next request, in every process.
     *
     * @param userId restricts it to tokens of this user
     * @throws RuleViolation if there is no such token
     */
    async revoke(id: string, userId?: number): Promise<void> {
      let query = kysely.deleteFrom('tokens').where('id', '=', id)
      if (userId !== undefined) query = query.where('user_id', '=', userId)
      const deleted = await query.returning('id').executeTakeFirst()
      if (!deleted) throw new RuleViolation(`there is no token ${id}`)
    },

    /** Records the last use of tokens. @param uses seconds since the epoch by token id */
    async touch(uses: ReadonlyMap<string, number>): Promise<void> {
      const moments = [...uses].map(
        ([id, seconds]) => sql`when ${id} then cast(${seconds} as ${sql.raw(dialect.integer)})`,
      )
      await kysely
        .updateTable('tokens')
        .set({ last_used_at: sql<number>`case id ${sql.join(moments, sql` `)} end` })
        .where('id', 'in', [...uses.keys()])
        .execute()
    },
  }
}

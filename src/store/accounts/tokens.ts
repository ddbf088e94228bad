import { randomBytes } from 'node:crypto'
import { type Selectable, sql } from 'kysely'
import type { Administrator, NamedUser, Person, SignedIn } from '../../domain/actors.ts'
import { checkPatterns } from '../../domain/patterns.ts'
import { Refusal } from '../../domain/refusal.ts'
import { keepUser } from '../access/locked-rows.ts'
import { NO_LIMITS, storedLimits, type TokenLimits } from '../access/token-limits.ts'
import type { Change, Transact } from '../audit/change.ts'
import type { Engine } from '../engine.ts'
import { INSERTED_ROWS } from '../steps.ts'
import type { Tables } from '../tables.ts'
import { formatMilliseconds, inMilliseconds, type Milliseconds, nowInSeconds, type Seconds } from '../time.ts'
import { listTokens, shownColumns, showToken, type TokenInfo } from './shown-tokens.ts'

export interface NewToken {
  name: string
  prefix: string
  hash: string
  scopes: string[]
  /** Since the epoch; null if it does not expire. */
  expiresAt: Milliseconds | null
  /** By default it may do what its user may. */
  limits?: TokenLimits
}

/** What a token is replaced with: its name, scopes and limits are those of the old one. */
interface Rotation extends Pick<NewToken, 'prefix' | 'hash'> {
  /**
   * Returns when it expires.
   *
   * @param lifetime for which the old one was created; null: for ever
   */
  expiresAt(lifetime: Milliseconds | null): Milliseconds | null
  /** Since the epoch; after it the old one does not work. */
  oldExpiresAt: Milliseconds
}

/**
 * Returns functions that manage personal access tokens. Only a hash of a token is stored.
 *
 * @param signInEvery see `StoreOptions`
 */
export function createTokenStore({ kysely, dialect }: Engine, signInEvery: Seconds) {
  return {
    /**
     * Creates a token of a user.
     *
     * @throws Refusal if a pattern is invalid, or if there is no such user
     */
    create: (change: Change<Administrator>, { userId, ...token }: NewToken & { userId: number }) =>
      createToken(change, userId, token),

    /** Creates a token of the user who acts. @throws Refusal as `create` */
    createOwn: (change: Change<SignedIn>, token: NewToken) => createToken(change, change.by.user.id, token),

    rotate: rotateToken,
    revoke: revokeToken,
    revokeAll: revokeTokens,

    /** See `listTokens`. */
    list: (userId?: number, readerId?: number) => listTokens(kysely, signInEvery, userId, readerId),

    /** Returns the id of the token with a hash; undefined if there is none. */
    async idOf(hash: string): Promise<string | undefined> {
      const tokens = kysely.selectFrom('tokens').select('id').where('hash', '=', hash)
      return (await tokens.executeTakeFirst())?.id
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

async function createToken(change: Change, userId: number, token: NewToken): Promise<TokenInfo> {
  const limits = token.limits ?? NO_LIMITS
  checkPatterns('context pattern', limits.contexts ?? [])
  const { db } = change
  const user = await keepUser(change, userId)
  const id = newTokenId()

  const reporter = await db
    .insertInto('reporters')
    .values({ user_name: user.name, token_id: id, token_name: token.name })
    .returning('id')
    .executeTakeFirstOrThrow()
  const row = await db
    .insertInto('tokens')
    .values({
      id,
      user_id: user.id,
      name: token.name,
      prefix: token.prefix,
      hash: token.hash,
      scopes: token.scopes.join(' '),
      created_at: nowInSeconds(),
      expires_at: token.expiresAt,
      last_used_at: null,
      ...storedLimits(limits),
      reporter_id: reporter.id,
    })
    .returning([...shownColumns])
    .executeTakeFirstOrThrow()

  const newToken = await showToken(db, { ...row, user: user.name })
  const details = {
    id,
    scopes: token.scopes,
    expires_at: formatMilliseconds(token.expiresAt),
    ...(newToken.repositories && { repositories: newToken.repositories }),
    ...(newToken.contexts && { contexts: [...newToken.contexts] }),
    ...(!newToken.push && { push: false as const }),
  }
  await change.record({ action: 'token.created', token: newToken.name, subject: user, details })
  return newToken
}

/** Returns the name of the token that the old secret of a rotated one becomes. */
export function replacedName(name: string): string {
  return `${name} (replaced)`
}

/**
 * Gives a token another secret and a new lifetime. The old secret works until `oldExpiresAt`, unless
 * it expires before, as a token of its own, so that a token can be rotated again at any time. Those
 * that have expired are deleted. A user can only rotate own tokens.
 *
 * @returns when the two secrets expire, in milliseconds since the epoch; null: never
 * @throws Refusal if there is no such token, it has expired, or it is an old secret, which would get
 * the lifetime that it has lost
 */
async function rotateToken(
  change: Change<Person>,
  id: string,
  { prefix, hash, expiresAt, oldExpiresAt }: Rotation,
): Promise<{ expiresAt: Milliseconds | null; oldExpiresAt: Milliseconds }> {
  const { db, by } = change
  const { user, ...old } = await lockToken(change, id, by.kind === 'user' ? by.user.id : undefined)
  if (old.expires_at !== null && old.expires_at <= Date.now())
    throw new Refusal(`the token ${id} has expired; create another one`)
  const reporters = db
    .selectFrom('reporters')
    .select('token_id')
    .where('id', '=', old.reporter_id ?? 0)
  const { token_id: original = id } = (await reporters.executeTakeFirst()) ?? {}
  if (original !== id)
    throw new Refusal(
      `the token ${id} is an old secret of ${original}; rotate that one, or create another one`,
    )

  const lifetime = old.expires_at === null ? null : old.expires_at - inMilliseconds(old.created_at)
  const fresh = {
    prefix,
    hash,
    created_at: nowInSeconds(),
    expires_at: expiresAt(lifetime),
    last_used_at: null,
  }
  await db.updateTable('tokens').set(fresh).where('id', '=', id).execute()

  const until = Math.min(old.expires_at ?? oldExpiresAt, oldExpiresAt)
  const copy = { ...old, id: newTokenId(), name: replacedName(old.name), expires_at: until }
  await db.insertInto('tokens').values(copy).execute()
  await db
    .deleteFrom('tokens')
    .where('user_id', '=', old.user_id)
    .where('reporter_id', '=', old.reporter_id ?? 0)
    .where('id', '!=', id)
    .where('expires_at', '<=', Date.now())
    .execute()

  const details = {
    id,
    expires_at: formatMilliseconds(fresh.expires_at),
    replaced: copy.id,
    replaced_expires_at: formatMilliseconds(until),
  }
  await change.record({ action: 'token.rotated', token: old.name, subject: user, details })
  return { expiresAt: fresh.expires_at, oldExpiresAt: until }
}

/**
 * Deletes a token. Takes effect at the next request, in every process. A user can only revoke own
 * tokens.
 *
 * @throws Refusal if there is no such token
 */
async function revokeToken(change: Change<Person>, id: string): Promise<void> {
  const { db, by } = change
  const { user, name } = await lockToken(change, id, by.kind === 'user' ? by.user.id : undefined)
  await db.deleteFrom('tokens').where('id', '=', id).execute()
  await change.record({ action: 'token.revoked', token: name, subject: user, details: { id } })
}

/**
 * Returns a token and its user, locked.
 *
 * @param ownerId the only user whose token it may be; default: any
 * @throws Refusal if there is no such token
 */
async function lockToken(
  change: Change,
  id: string,
  ownerId?: number,
): Promise<Selectable<Tables['tokens']> & { user: NamedUser }> {
  const tokens = change.db.selectFrom('tokens').selectAll().where('id', '=', id)
  // Its user is locked first, and never another one.
  const found = await tokens.executeTakeFirst()
  if (!found || (ownerId !== undefined && found.user_id !== ownerId))
    throw new Refusal(`there is no token ${id}`)
  const user = await keepUser(change, found.user_id)
  const token = await change.locked(tokens).executeTakeFirst()
  if (!token) throw new Refusal(`there is no token ${id}`)
  return { ...token, user }
}

/**
 * Deletes all tokens of a user, as `revokeToken`. Of very many, a step at a time, between which
 * others can write. If that is interrupted, the next call continues.
 *
 * @returns how many
 * @throws Refusal if there is no such user
 */
export async function revokeTokens(transact: Transact<Administrator>, userId: number): Promise<number> {
  for (let revoked = 0; ; ) {
    const count = await transact(async (change) => revokeSome(change, await keepUser(change, userId)))
    revoked += count
    // A rotation for which this waited has added a token.
    if (count === 0) return revoked
  }
}

/** Deletes tokens of a user, as `revokeToken`: at most `INSERTED_ROWS`. @returns how many */
export async function revokeSome(change: Change, user: NamedUser): Promise<number> {
  const step = change.db.selectFrom('tokens').select(['id', 'name']).where('user_id', '=', user.id)
  const tokens = await change.locked(step.orderBy('id').limit(INSERTED_ROWS)).execute()
  if (tokens.length === 0) return 0
  await change.db
    .deleteFrom('tokens')
    .where(
      'id',
      'in',
      tokens.map(({ id }) => id),
    )
    .execute()
  const event = { action: 'token.revoked', subject: user } as const
  await change.record(...tokens.map(({ id, name }) => ({ ...event, token: name, details: { id } })))
  return tokens.length
}

function newTokenId(): string {
  return randomBytes(8).toString('hex')
}

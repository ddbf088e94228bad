import type { Selectable } from 'kysely'
import { repositoriesFor } from '../access/readable-repositories.ts'
import { limitColumns, readLimits } from '../access/token-limits.ts'
import { isPresent } from '../deleted-repositories.ts'
import type { Queries, Tables } from '../tables.ts'
import type { Milliseconds, Seconds } from '../time.ts'
import { signInDue } from '../token-validity.ts'

/** A token as shown to its owner. Its limits are those of `TokenLimits`. */
export interface TokenInfo extends Pick<Selectable<Tables['tokens']>, 'id' | 'name' | 'prefix' | 'scopes'> {
  /** Name of its owner. */
  user: string
  /** Since the epoch. */
  createdAt: Seconds
  /** Since the epoch; null if it does not expire. */
  expiresAt: Milliseconds | null
  /** Since the epoch. */
  lastUsedAt: Seconds | null
  /** What it reported carries this id: that of its old secrets too. */
  reporterId: number | null
  /** OWNER/NAME of each repository that still exists and that the reader may see. */
  repositories: string[] | null
  /** How many others exist. */
  hiddenRepositories: number
  contexts: readonly string[] | null
  push: boolean
}

/** A token in a list. */
export interface ListedToken extends TokenInfo {
  /** Whether it is the old secret of a token that was rotated. */
  isReplaced: boolean
  /** See `signInDue`. */
  signInDue: Milliseconds | null
}

/** What `showToken` takes. */
export const shownColumns = [
  'id',
  'name',
  'prefix',
  'scopes',
  'created_at as createdAt',
  'expires_at as expiresAt',
  'last_used_at as lastUsedAt',
  'reporter_id as reporterId',
  ...limitColumns,
] as const
type LimitColumns = Pick<Selectable<Tables['tokens']>, (typeof limitColumns)[number]>

type ShownRow = Omit<TokenInfo, keyof LimitColumns | 'hiddenRepositories'> & LimitColumns

/**
 * Returns the tokens of a user, or all; newest first.
 *
 * @param signInEvery see `StoreOptions`
 * @param readerId the user who reads them; default: an administrator
 */
export async function listTokens(
  db: Queries,
  signInEvery: Seconds,
  userId?: number,
  readerId?: number,
): Promise<ListedToken[]> {
  const rows = await db
    .selectFrom('tokens')
    .innerJoin('users', 'users.id', 'tokens.user_id')
    .select(shownColumns.map((column) => `tokens.${column}` as const))
    .leftJoin('reporters', 'reporters.id', 'tokens.reporter_id')
    .select(['users.name as user', 'users.signed_in_at', 'reporters.token_id as original'])
    .$if(userId !== undefined, (query) => query.where('user_id', '=', userId ?? 0))
    .orderBy('tokens.created_at', 'desc')
    .orderBy('tokens.id')
    .execute()
  const names = await repositoryNames(db, rows, readerId)
  return rows.map(({ signed_in_at, original, ...row }) => ({
    ...asShown(row, names),
    isReplaced: original !== null && original !== row.id,
    signInDue: signInDue(signed_in_at, signInEvery),
  }))
}

/** Returns a token as an administrator or its owner sees it, who chose its repositories. */
export async function showToken(db: Queries, row: ShownRow): Promise<TokenInfo> {
  return asShown(row, await repositoryNames(db, [row]))
}

/**
 * Returns the names of the repositories to which tokens are limited, by id: null for those that the
 * reader may not see. Those that were deleted are missing.
 */
async function repositoryNames(
  db: Queries,
  rows: readonly LimitColumns[],
  readerId?: number,
): Promise<ReadonlyMap<number, string | null>> {
  const ids = new Set(rows.flatMap((row) => readLimits(row).repositories ?? []))
  if (ids.size === 0) return new Map()
  const repositories = await db
    .selectFrom('repositories')
    .select(['id', 'owner', 'name'])
    .where('id', 'in', [...ids])
    .where(isPresent)
    .execute()
  const readable =
    readerId !== undefined &&
    (await repositoriesFor(db, readerId)
      .where('repositories.id', 'in', [...ids])
      .execute())
  const isReadable = (id: number) => !readable || readable.some(({ repository_id }) => repository_id === id)
  return new Map(repositories.map(({ id, owner, name }) => [id, isReadable(id) ? `${owner}/${name}` : null]))
}

function asShown(row: ShownRow, names: ReadonlyMap<number, string | null>): TokenInfo {
  const { repositories, contexts, push } = readLimits(row)
  return {
    ...row,
    repositories: repositories === null ? null : repositories.flatMap((id) => names.get(id) ?? []).sort(),
    hiddenRepositories: (repositories ?? []).filter((id) => names.get(id) === null).length,
    contexts,
    push,
  }
}

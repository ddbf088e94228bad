import { sql } from 'kysely'
import type { Permission } from '../../domain/permissions.ts'
import { memoizeByObject } from '../../util/memoize.ts'
import type { Reading } from '../engine.ts'
import { accessKey, type Failures, failureColumns } from '../failures/failures.ts'
import { prepare } from '../prepared.ts'
import type { Milliseconds, Seconds } from '../time.ts'
import { signInDue } from '../token-validity.ts'
import { accessRules, ofCollaborator, ofMember } from './access-rules.ts'
import {
  createRepositoryReader,
  type ReadableRepository,
  repositoryColumns,
  repositoryKeys,
} from './readable-repositories.ts'
import { limitColumns, readLimits, type TokenLimits } from './token-limits.ts'

/** A caller and a repository, as stored. */
export interface Access {
  /** The address's failure budget; null: nothing failed lately. */
  failures: Failures | null
  /** null: no token of this hash, or its user is locked. Expired ones are here. */
  token: {
    id: string
    name: string
    userId: number
    userName: string
    scopes: string[]
    expiresAt: Milliseconds | null
    /** Since the epoch: it stops working unless its user signs in again; null: it does not. */
    signInDue: Milliseconds | null
    lastUsedAt: Seconds | null
    limits: TokenLimits
    /** Stored with its reports. */
    reporterId: number | null
  } | null
  /** null: no such repository, or none that the caller may read. The two are indistinguishable. */
  repository: ReadableRepository | null
}

/**
 * Whether the repository is one to which the token is limited. Decided in SQL, so that others are
 * like missing ones.
 */
const included = sql<boolean>`(tokens.repositories is null
  or tokens.repositories like '% ' || repositories.id || ' %')`
const highest = sql<Permission>`case when tokens.id is null then 'admin' else 'write' end`
const { mayRead, permission } = accessRules(included, highest)

/**
 * Returns a query by names and credentials. Its only row has the failures of the address, the
 * token, its user or the one with the id, and the repository. `repository_id` is null if it is
 * missing, and if the user may not read it.
 *
 * An empty text is neither a hash nor a name, and 0 is no id: they match nothing.
 */
export function accessQuery({ kysely, dialect }: Reading) {
  const integer = sql.raw(dialect.integer)
  return prepare<{ address: string; hash: string; userId: number; owner: string; name: string }>()((p) =>
    kysely
      // Always one row, so one statement covers token and repository. The parameters are here
      // because SQLite replans a statement for each value of a parameter in a join condition.
      .selectFrom(
        sql<{
          address: string
          hash: string
          user_id: number
          owner: string
          name: string
        }>`(select cast(${p.address} as text) as address, cast(${p.hash} as text) as hash,
          cast(${p.userId} as ${integer}) as user_id, cast(${p.owner} as text) as owner,
          cast(${p.name} as text) as name)`.as('asked'),
      )
      .leftJoin('auth_failures', (join) =>
        join
          .onRef('auth_failures.address', '=', 'asked.address')
          .on('auth_failures.ends_at', '>', sql<number>`${sql.raw(dialect.now)}`),
      )
      .leftJoin('tokens', 'tokens.hash', 'asked.hash')
      .leftJoin('users', (join) =>
        join
          .on('users.id', '=', (eb) => eb.fn.coalesce('tokens.user_id', 'asked.user_id'))
          .on('users.locked_at', 'is', null),
      )
      .leftJoin('repositories', (join) =>
        join
          .onRef('repositories.owner_key', '=', 'asked.owner')
          .onRef('repositories.name_key', '=', 'asked.name'),
      )
      .leftJoin('members', (join) => join.on(ofMember))
      .leftJoin('collaborators', (join) => join.on(ofCollaborator))
      .select([
        ...failureColumns(dialect),
        'tokens.id as token_id',
        'tokens.name as token_name',
        'users.id as user_id',
        'users.name as user_name',
        'users.signed_in_at',
        'tokens.scopes',
        'tokens.expires_at',
        'tokens.last_used_at',
        ...limitColumns.map((column) => `tokens.${column}` as const),
        'tokens.reporter_id',
        sql<number | null>`case when ${mayRead} then repositories.id end`.as('repository_id'),
        ...repositoryColumns,
        permission.as('permission'),
      ]),
  )
}

type AccessRow = NonNullable<ReturnType<typeof accessQuery>['row']>

/**
 * Returns functions that read a caller's token, access and failure budget in one statement.
 *
 * @param signInEvery see `StoreOptions`
 */
export function createAccessStore(engine: Reading, folder: string, signInEvery: Seconds = 0) {
  const query = accessQuery(engine)
  const repositoryOf = createRepositoryReader(folder)
  const accessOf = memoizeByObject((row: AccessRow): Access => {
    const { failures, endsIn } = row
    return {
      failures: failures === null || endsIn === null ? null : { failures, endsIn },
      token: tokenOf(row, signInEvery),
      repository: repositoryOf(row),
    }
  })

  return {
    /**
     * @param address whose failure budget is looked up along the way; null: nobody's
     * @param hash of the token; null for an anonymous caller
     * @param owner as sent, like `name`; an invalid name counts as a missing repository
     */
    async find(address: string | null, hash: string | null, owner: string, name: string): Promise<Access> {
      const keys = repositoryKeys(owner, name)
      const params = { address: address ?? '', hash: hash ?? '', userId: 0, ...keys }
      const [row] = await engine.read(query, params, {
        key: accessKey(params.address),
        variant: `${params.hash} ${params.owner}/${params.name}`,
        // A failure budget recovers as time passes: what it was is not remembered.
        cacheable: ([row]) => row?.failures === null,
      })
      if (!row) throw new Error('the query must return one row')
      return accessOf(row)
    },
  }
}

function tokenOf(row: AccessRow, signInEvery: Seconds): Access['token'] {
  const { token_id, token_name, user_id, user_name } = row
  if (token_id === null || token_name === null || user_id === null || user_name === null) return null
  return {
    id: token_id,
    name: token_name,
    userId: user_id,
    userName: user_name,
    scopes: row.scopes ? row.scopes.split(' ') : [],
    expiresAt: row.expires_at,
    signInDue: signInDue(row.signed_in_at, signInEvery),
    lastUsedAt: row.last_used_at,
    limits: readLimits({ repositories: row.repositories, contexts: row.contexts, push: row.push ?? 0 }),
    reporterId: row.reporter_id,
  }
}

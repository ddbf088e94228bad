import { sql } from 'kysely'
import { memoizeByObject } from '../util/memoize-by-object.ts'
import type { Engine } from './engine.ts'
import { accessKey, type Failures, failureColumns } from './failures.ts'
import { isName, isOwnerName, nameKey } from './names.ts'
import { prepare } from './prepared.ts'
import { repositoryPath } from './repositories.ts'
import type { Permission, Visibility } from './tables.ts'

/** What the database knows of a caller and a repository. */
export interface Access {
  /** The address's failure budget; null: nothing failed lately. */
  failures: Failures | null
  /** null: no token of this hash. Expired ones are here. */
  token: {
    id: string
    userId: number
    scopes: string[]
    expiresAt: number | null
    lastUsedAt: number | null
  } | null
  /** null: no such repository. */
  repository: RepositoryAccess | null
}

export interface RepositoryAccess {
  id: number
  visibility: Visibility
  objectFormat: 'sha1' | 'sha256'
  path: string
  /** What the token's user was given, or has as the owner; null: nothing. */
  permission: Permission | null
}

/** Who asks for which repository with what right: one statement. */
export function accessStore(engine: Engine, folder: string) {
  const now = sql<number>`${sql.raw(engine.flavor.now)}`
  const look = prepare<{ address: string; hash: string; owner: string; name: string }>()((p) =>
    engine.kysely
      // One row whatever is missing, so that one statement answers for token and repository alike. The parameters are
      // here because SQLite plans a statement anew for each value of a parameter in the condition of a join.
      .selectFrom(
        sql<{
          address: string
          hash: string
          owner: string
          name: string
        }>`(select cast(${p.address} as text) as address,
          cast(${p.hash} as text) as hash, cast(${p.owner} as text) as owner, cast(${p.name} as text) as name)`.as(
          'asked',
        ),
      )
      .leftJoin('auth_failures', (join) =>
        join.onRef('auth_failures.address', '=', 'asked.address').on('auth_failures.ends_at', '>', now),
      )
      .leftJoin('tokens', 'tokens.hash', 'asked.hash')
      .leftJoin('users', 'users.id', 'tokens.user_id')
      .leftJoin('repositories', (join) =>
        join
          .onRef('repositories.owner_key', '=', 'asked.owner')
          .onRef('repositories.name_key', '=', 'asked.name'),
      )
      .leftJoin('collaborators', (join) =>
        join
          .onRef('collaborators.repository_id', '=', 'repositories.id')
          .onRef('collaborators.user_id', '=', 'users.id'),
      )
      .select([
        ...failureColumns(engine.flavor),
        'tokens.id as token_id',
        'tokens.user_id',
        'tokens.scopes',
        'tokens.expires_at',
        'tokens.last_used_at',
        'users.name_key',
        'repositories.id as repository_id',
        'repositories.owner_key',
        'repositories.visibility',
        'repositories.object_format',
        'repositories.path',
        'collaborators.permission',
      ]),
  )

  const accessOf = memoizeByObject((row: Row): Access => {
    return { failures: failuresOf(row), token: tokenOf(row), repository: repositoryOf(row, folder) }
  })

  return {
    /**
     * @param address whose failure budget is looked up along the way; null: nobody's
     * @param hash of the token; null for an anonymous caller
     * @param owner as sent, as is `name`: one that breaks the rules is a repository that is not there
     */
    async look(address: string | null, hash: string | null, owner: string, name: string): Promise<Access> {
      const possible = isOwnerName(owner) && isName(name)
      // An empty string is neither a hash nor a name: it matches nothing.
      const params = {
        address: address ?? '',
        hash: hash ?? '',
        owner: possible ? nameKey(owner) : '',
        name: possible ? nameKey(name) : '',
      }
      const [row] = await engine.read(look, params, {
        key: accessKey(params.address),
        part: `${params.hash} ${params.owner}/${params.name}`,
        keep: hasNoFailures,
      })
      if (!row) throw new Error('one row was asked for')
      return accessOf(row)
    },
  }
}

interface Row {
  failures: number | null
  ends_in: number | null
  token_id: string | null
  user_id: number | null
  scopes: string | null
  expires_at: number | null
  last_used_at: number | null
  name_key: string | null
  repository_id: number | null
  owner_key: string | null
  visibility: Visibility | null
  object_format: 'sha1' | 'sha256' | null
  path: string | null
  permission: Permission | null
}

/** A failure budget recovers as time passes: what it was is not remembered. */
function hasNoFailures(rows: Row[]): boolean {
  return rows.every(({ failures }) => failures === null)
}

function failuresOf({ failures, ends_in }: Row): Access['failures'] {
  return failures === null || ends_in === null ? null : { failures, endsIn: ends_in }
}

function tokenOf(row: Row): Access['token'] {
  if (row.token_id === null || row.user_id === null) return null
  return {
    id: row.token_id,
    userId: row.user_id,
    scopes: row.scopes ? row.scopes.split(' ') : [],
    expiresAt: row.expires_at,
    lastUsedAt: row.last_used_at,
  }
}

function repositoryOf(row: Row, folder: string): Access['repository'] {
  if (row.repository_id === null || row.visibility === null || row.object_format === null) return null
  const owns = row.name_key !== null && row.name_key === row.owner_key
  return {
    id: row.repository_id,
    visibility: row.visibility,
    objectFormat: row.object_format,
    path: repositoryPath(folder, { id: row.repository_id, path: row.path }),
    permission: owns ? 'write' : row.permission,
  }
}

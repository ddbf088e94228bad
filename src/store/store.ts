import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'pg-connection-string'
import { accessStore } from './access.ts'
import { type Engine, type PoolFigures, StoreUnavailable } from './engine.ts'
import { failureStore } from './failures.ts'
import { appliedMigrations, migrate, UnknownSchema } from './migrations.ts'
import { prepare } from './prepared.ts'
import { repositoryStore } from './repositories.ts'
import { repositoryListing } from './repository-listing.ts'
import { sessionStore } from './sessions.ts'
import { statusStore } from './statuses.ts'
import { tokenStore } from './tokens.ts'
import { userStore } from './users.ts'

export type Store = ReturnType<typeof storeOver>

export interface StoreOptions {
  /** Folder of the SQLite database and of the repositories that the server creates. */
  dataDir: string
  /** A PostgreSQL database instead of the one in `dataDir`. */
  databaseUrl?: string | null
  /** Most connections to PostgreSQL, 10 by default. */
  poolSize?: number
  /** Contexts that a commit may have, 2,000 by default. */
  maxContexts?: number
  /** For an administrator: no statement is too long. */
  patient?: boolean
  /** Whether to create a database that does not exist, as by default. */
  create?: boolean
}

/** There is no database, and none was to be created. The message says where. */
export class NoDatabase extends Error {
  override name = 'NoDatabase'
}

/**
 * Opens the database and brings its schema up to date.
 *
 * @throws StoreUnavailable when it cannot be opened or written, with its place; UnknownSchema as `migrate`; NoDatabase
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const place = placeOf(options)
  try {
    return await openAndMigrate(options, place)
  } catch (error) {
    if (error instanceof StoreUnavailable)
      throw new StoreUnavailable(`${place}: ${error.message}`, { cause: error })
    if (error instanceof UnknownSchema) throw new UnknownSchema(`${place}: ${error.message}`)
    throw error
  }
}

async function openAndMigrate(options: StoreOptions, place: string): Promise<Store> {
  const { create = true, dataDir, databaseUrl, maxContexts } = options
  // Opening it would create it.
  if (!create && !databaseUrl && !existsSync(place)) throw new NoDatabase(`there is no database at ${place}`)
  const engine = await openEngine(options)
  try {
    if (!create && (await appliedMigrations(engine.kysely)).size === 0)
      throw new NoDatabase(`${place} is empty: it is no database of the server`)
    await migrate(engine)
    return storeOver(engine, join(dataDir, 'repositories'), maxContexts)
  } catch (error) {
    // On a full disk, closing fails too. The first error has the reason.
    await engine.close().catch(() => {})
    throw error
  }
}

/** Returns where the database is, without user and password. */
function placeOf({ dataDir, databaseUrl }: StoreOptions): string {
  if (!databaseUrl) return databaseFile(dataDir)
  const { host, port, database } = parse(databaseUrl)
  return `${host}${port ? `:${port}` : ''}/${database ?? ''}`
}

function databaseFile(dataDir: string): string {
  return join(dataDir, 'commit-status.db')
}

/** Opens the database as it is. @throws StoreUnavailable when it cannot be opened */
export async function openEngine(options: StoreOptions): Promise<Engine> {
  const { dataDir, databaseUrl, poolSize = 10, patient = false } = options
  // Only one of the two drivers is needed, and loading either takes a while.
  if (databaseUrl) {
    const { openPostgres } = await import('./postgres/engine.ts')
    return openPostgres({ url: databaseUrl, poolSize, patient })
  }
  const { openSqlite } = await import('./sqlite/engine.ts')
  return openSqlite(databaseFile(dataDir))
}

/** Contexts that a commit may have unless configured otherwise. */
const MAX_CONTEXTS = 2_000

/** All that the server does with a database. @param repositories folder of the repositories that it creates */
export function storeOver(engine: Engine, repositories: string, maxContexts = MAX_CONTEXTS) {
  const anyMigration = prepare<object>()(() =>
    engine.kysely.selectFrom('schema_migrations').select('name').limit(1),
  )
  return {
    /** For maintenance, which works on tables rather than on users, tokens and statuses. */
    engine,
    users: userStore(engine),
    repositories: repositoryStore(engine, repositories),
    tokens: tokenStore(engine),
    statuses: statusStore(engine, maxContexts),
    sessions: sessionStore(engine),
    failures: failureStore(engine),
    access: accessStore(engine, repositories),
    listing: repositoryListing(engine, repositories),
    migrate: () => migrate(engine),
    /** @throws StoreUnavailable when the database cannot be read, or nothing can be stored in it */
    async ping(): Promise<void> {
      await engine.read(anyMigration, {})
      await engine.probe()
    },
    /** Connections to the database; null where there is no pool. */
    pool: (): PoolFigures | null => engine.pool?.() ?? null,
    close: () => engine.close(),
  }
}

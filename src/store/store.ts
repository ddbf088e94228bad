import { join } from 'node:path'
import { accessStore } from './access.ts'
import type { Engine, PoolFigures } from './engine.ts'
import { failureStore } from './failures.ts'
import { migrate } from './migrations.ts'
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
}

/**
 * Opens the database and brings its schema up to date.
 *
 * @throws StoreUnavailable when it cannot be opened
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const engine = await openEngine(options)
  try {
    await migrate(engine)
    return storeOver(engine, join(options.dataDir, 'repositories'), options.maxContexts)
  } catch (error) {
    await engine.close()
    throw error
  }
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
  return openSqlite(join(dataDir, 'commit-status.db'))
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

import { existsSync, statSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'pg-connection-string'
import { ADMINISTRATOR } from '../domain/actors.ts'
import { Refusal } from '../domain/refusal.ts'
import { ExpectedError } from '../util/expected-errors.ts'
import { createAccessStore } from './access/access.ts'
import { createRepositoryListing } from './access/repository-listing.ts'
import { createUsedTokens } from './access/used-tokens.ts'
import { createSessionStore } from './accounts/sessions.ts'
import { createTokenStore } from './accounts/tokens.ts'
import { createUserStore } from './accounts/users.ts'
import type { AuditLine } from './audit/audit.ts'
import { createAuditLog } from './audit/audit-log.ts'
import { createAudit } from './audit/change.ts'
import {
  type BatchObserver,
  type Engine,
  type PoolFigures,
  type Reading,
  StoreUnavailable,
} from './engine.ts'
import { createFailureStore } from './failures/failure-store.ts'
import { createGroupStore } from './owners/groups.ts'
import { createMemberStore } from './owners/members.ts'
import { prepare } from './prepared.ts'
import { createBranchMoves } from './repositories/branch-moves.ts'
import { createCollaboratorStore } from './repositories/collaborators.ts'
import { createRepositoryFolders } from './repositories/folders.ts'
import { createPushStore } from './repositories/pushes.ts'
import { createRepositoryStore } from './repositories/repositories.ts'
import { createReservationStore } from './repositories/reservations.ts'
import { createReservedNames } from './repositories/reserved-names.ts'
import { createRuleStore } from './repositories/rules.ts'
import { appliedMigrations, migrate, UnknownSchema } from './schema/migrate.ts'
import { createAwaited } from './statuses/awaited.ts'
import { createCheckMatrix } from './statuses/check-matrix.ts'
import { createReportedContexts } from './statuses/reported-contexts.ts'
import { createStatusSummaries } from './statuses/status-summaries.ts'
import { createStatusStore } from './statuses/statuses.ts'
import type { Seconds } from './time.ts'
import { createVersions } from './versions.ts'

export type Store = ReturnType<typeof createStore>

export interface StoreOptions {
  /** Folder of the SQLite database and of the repositories that the server creates. */
  dataDir: string
  /** URL of a PostgreSQL database to use instead of the SQLite one. */
  databaseUrl?: string | null
  /** Maximum number of connections to PostgreSQL, 10 by default. */
  poolSize?: number
  /** Maximum number of contexts of a commit; `MAX_CONTEXTS` by default and at most. */
  maxContexts?: number
  /**
   * Seconds after the last sign-in of a linked user in which the user's tokens work; 0, the
   * default: always.
   */
  signInEvery?: Seconds
  /**
   * Whether statements have a time limit; true by default. The administrator's commands have none.
   */
  statementTimeout?: boolean
  /** Memory for pages of each connection to SQLite, in KiB. */
  pageCache?: number
  /**
   * Whether to create a database that does not exist; true by default. A command does even if there
   * are repositories of one.
   */
  create?: boolean | 'migrate' | 'restore'
  /** Whether to apply pending migrations; true by default. */
  migrate?: boolean
  /** Who runs the administrator's command: added to the details of its events. */
  operator?: Record<string, string>
  /** Receives what an administrator should know about the database. */
  onNotice?: (text: string) => void
  /** Receives each audit event of this process after it has been committed. */
  onEvent?: (line: AuditLine) => void
}

/**
 * Maximum number of contexts of a commit, so that all of them can be read and sent at once. A
 * commit may have more from earlier versions.
 */
export const MAX_CONTEXTS = 1_000

const UPGRADED =
  'the database was that of version 0.3.0 or earlier, and is upgraded now. Stop all servers of that version: ' +
  'what they write beside this one may be lost, and they cannot start again'

/** There is no database, and it should not be created. The message says where. */
export class NoDatabase extends ExpectedError {
  override readonly name = 'NoDatabase'
}

/**
 * Opens the database and applies pending migrations.
 *
 * @throws StoreUnavailable if it cannot be opened or written; UnknownSchema as `migrate`;
 * NoDatabase; Refusal if there is no database of the repositories that are there. All name
 * the database
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
  const { create = true, migrate: mayMigrate, dataDir, databaseUrl, maxContexts } = options
  const folder = join(dataDir, 'repositories')
  const isBeside = existsSync(folder) && (await readdir(folder)).some((name) => /^\d+\.git$/.test(name))
  // Opening a database would create it.
  if (!databaseUrl && !statSync(place, { throwIfNoEntry: false })?.size) {
    if (!create) throw new NoDatabase(`there is no database at ${place}`)
    if (isBeside && create === true) throw databaseLost(place, folder)
  }
  const engine = await openEngine(options)
  try {
    const missing = await engine.findMissingRight?.()
    if (missing) throw new UnknownSchema(missing)
    if (!create && (await appliedMigrations(engine.kysely)).size === 0)
      throw new NoDatabase(`${place} is empty: it is not a database of the server`)
    if (await migrate(engine, mayMigrate)) options.onNotice?.(UPGRADED)
    const store = createStore(engine, folder, maxContexts, options)
    if (!isBeside || !(await isEmpty(engine))) return store
    if (create === true) throw databaseLost(place, folder)
    if (create === 'migrate')
      await store.audit.transaction(ADMINISTRATOR, (change) =>
        change.record({ action: 'audit.began', details: {} }),
      )
    return store
  } catch (error) {
    // On a full disk, closing fails too. The first error names the reason.
    await engine.close().catch(() => {})
    throw error
  }
}

function databaseLost(place: string, folder: string): Refusal {
  return new Refusal(
    `${place} has no users and no repositories, but ${folder} has repositories of an earlier database. ` +
      'Restore a backup of it with "restore" or, if an empty database is meant, run "migrate"',
  )
}

async function isEmpty({ kysely }: Reading): Promise<boolean> {
  for (const table of ['users', 'repositories', 'audit_events'] as const)
    if (await kysely.selectFrom(table).select('id').limit(1).executeTakeFirst()) return false
  return true
}

/** Returns the location of the database without user and password. */
function placeOf({ dataDir, databaseUrl }: StoreOptions): string {
  if (!databaseUrl) return databaseFile(dataDir)
  const { host, port, database } = parse(databaseUrl)
  return `${host}${port ? `:${port}` : ''}/${database ?? ''}`
}

/** Returns the path of the SQLite database. */
export function databaseFile(dataDir: string): string {
  return join(dataDir, 'commit-status.db')
}

/** Opens the database without migrating it. @throws StoreUnavailable if it cannot be opened */
export async function openEngine(options: StoreOptions): Promise<Engine> {
  const { dataDir, databaseUrl, poolSize = 10, statementTimeout = true, pageCache } = options
  // Loads only the driver that is needed, which takes a while.
  if (databaseUrl) {
    const { openPostgres } = await import('./postgres/engine.ts')
    return openPostgres(databaseUrl, poolSize, statementTimeout)
  }
  const { openSqlite } = await import('./sqlite/engine.ts')
  return openSqlite(databaseFile(dataDir), pageCache)
}

/**
 * Creates a store on an open database.
 *
 * @param repositories folder of the repositories that it creates
 */
export function createStore(
  engine: Engine,
  repositories: string,
  maxContexts = MAX_CONTEXTS,
  { onEvent, operator, signInEvery = 0 }: Pick<StoreOptions, 'onEvent' | 'operator' | 'signInEvery'> = {},
) {
  const audit = createAudit(engine, { onEvent, operator, signInEvery })
  const anyMigration = prepare<object>()(() =>
    engine.kysely.selectFrom('schema_migrations').select('name').limit(1),
  )
  const summaries = createStatusSummaries(engine)

  return {
    /** For maintenance, which works on tables. Nothing that answers requests has it. */
    engine,
    /** See `Engine`. */
    remote: engine.remote,
    users: createUserStore(engine, audit),
    groups: createGroupStore(engine),
    members: createMemberStore(engine),
    repositories: createRepositoryStore(engine, repositories, audit),
    reservedNames: createReservedNames(engine),
    repositoryFolders: createRepositoryFolders(engine, repositories, audit),
    collaborators: createCollaboratorStore(engine),
    reservations: createReservationStore(engine),
    tokens: createTokenStore(engine, signInEvery),
    usedTokens: createUsedTokens(engine),
    rules: createRuleStore(engine, audit),
    listTips: createBranchMoves(engine),
    pushes: createPushStore(engine, repositories, audit),
    statuses: createStatusStore(engine, Math.min(maxContexts, MAX_CONTEXTS)),
    summaries,
    matrix: createCheckMatrix(engine, summaries),
    awaited: createAwaited(engine),
    reportedContexts: createReportedContexts(engine, summaries),
    versions: createVersions(engine),
    sessions: createSessionStore(engine, audit),
    failures: createFailureStore(engine, audit),
    access: createAccessStore(engine, repositories, signInEvery),
    audit,
    auditLog: createAuditLog(engine),
    listing: createRepositoryListing(engine, repositories),
    /** Checks that the database can be read and written. @throws StoreUnavailable otherwise */
    async ping(): Promise<void> {
      await engine.read(anyMigration, {})
      await engine.probe()
    },
    /** Returns the numbers of connections in the pool; null if there is no pool. */
    pool: (): PoolFigures | null => engine.pool?.() ?? null,
    /** Calls the function for each statement of one or more calls, where there is a pool. */
    observeBatches: (observer: BatchObserver): void => engine.observeBatches?.(observer),
    close: () => engine.close(),
  }
}

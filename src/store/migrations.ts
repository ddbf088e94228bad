import { type Kysely, sql, type TableMetadata, type Transaction } from 'kysely'
import { ExpectedError } from '../errors.ts'
import { type DialectSql, type Engine, PermissionDenied, type SchemaFunction } from './engine.ts'
import { primaryKeys, type Tables } from './tables.ts'

/** Statements that add a reporter for each token without one. */
const addMissingReporters = [
  `insert into reporters (user_name, token_id, token_name)
    select users.name, tokens.id, tokens.name from tokens join users on users.id = tokens.user_id
    where tokens.reporter_id is null and tokens.id not in (select token_id from reporters) order by tokens.created_at, tokens.id`,
  `update tokens set reporter_id = (select reporters.id from reporters where reporters.token_id = tokens.id)
    where reporter_id is null`,
]

/**
 * Adds the subjects that events have by what they say: a user's push is the only thing done to
 * nobody.
 */
const addMissingSubjects = `update audit_events
  set subject_id = user_id, subject_name = user_name, subject_key = user_key
  where subject_key is null and user_key is not null and (actor <> 'user' or repository_key is null)`

/**
 * Adds the owners of users and repositories that have none, as those of version 0.2.0. A group
 * without members that is older than a user of its name stays a group.
 */
const addMissingOwners = [
  `insert into owners (name, name_key, created_at) select name, name_key, created_at from users
    where name_key not in (select name_key from owners) order by id`,
  `insert into owners (name, name_key, created_at) select min(owner), owner_key, min(created_at) from repositories
    where owner_key not in (select name_key from owners) group by owner_key order by min(id)`,
  `update repositories set owner_id = (select owners.id from owners where owners.name_key = repositories.owner_key)
    where owner_id is null or owner_key <> (select owners.name_key from owners where owners.id = owner_id)`,
  `insert into members (owner_id, user_id, permission) select owners.id, users.id, 'admin'
    from users join owners on owners.name_key = users.name_key and owners.created_at >= users.created_at
    where owners.id not in (select owner_id from members)`,
  // `admin` is stored as `write` for them.
  `update collaborators set granted = permission
    where granted is null or granted <> permission and (granted <> 'admin' or permission <> 'write')`,
]

/**
 * Statements that complete rows of an older version. They run again after its backup was restored.
 */
export const completeOlderRows = [...addMissingReporters, addMissingSubjects, ...addMissingOwners]

/** Migrations in the order in which they are applied. Never change a released one; add another. */
const migrations: Record<string, (dialect: DialectSql) => string[]> = {
  '001-initial': ({ serial, integer, text, clustered }) => [
    `create table users (
      id ${serial},
      name ${text} not null,
      name_key ${text} not null unique,
      password_hash ${text},
      created_at ${integer} not null
    )`,
    `create table repositories (
      id ${serial},
      owner ${text} not null,
      owner_key ${text} not null,
      name ${text} not null,
      name_key ${text} not null,
      visibility ${text} not null check (visibility in ('public', 'private')),
      object_format ${text} not null check (object_format in ('sha1', 'sha256')),
      path ${text},
      created_at ${integer} not null,
      unique (owner_key, name_key)
    )`,
    `create table collaborators (
      repository_id ${integer} not null references repositories (id) on delete cascade,
      user_id ${integer} not null references users (id) on delete cascade,
      permission ${text} not null check (permission in ('read', 'write')),
      primary key (repository_id, user_id)
    )${clustered}`,
    'create index collaborators_by_user on collaborators (user_id)',
    `create table tokens (
      id ${text} not null primary key,
      user_id ${integer} not null references users (id) on delete cascade,
      name ${text} not null,
      prefix ${text} not null,
      hash ${text} not null unique,
      scopes ${text} not null,
      created_at ${integer} not null,
      expires_at ${integer},
      last_used_at ${integer}
    )`,
    'create index tokens_by_user on tokens (user_id)',
    // The primary key stores the rows of a commit together and in the order of the answer, so that
    // a read is one range of one index without sorting. It begins with the repository, by which the
    // table can be distributed.
    `create table statuses (
      repository_id ${integer} not null references repositories (id) on delete cascade,
      sha ${text} not null,
      context ${text} not null,
      id ${text} not null,
      state ${text} not null,
      description ${text},
      target_url ${text},
      created_at ${integer} not null,
      updated_at ${integer} not null,
      primary key (repository_id, sha, context)
    )${clustered}`,
    `create table sessions (
      hash ${text} not null primary key,
      user_id ${integer} not null references users (id) on delete cascade,
      created_at ${integer} not null,
      seen_at ${integer} not null
    )`,
    'create index sessions_by_user on sessions (user_id)',
    'create index sessions_by_age on sessions (seen_at)',
    `create table auth_failures (
      address ${text} not null primary key,
      failures ${integer} not null,
      ends_at ${integer} not null
    )`,
    'create index auth_failures_by_end on auth_failures (ends_at)',
  ],
  '002-auth-reservations': ({ integer }) => [
    `alter table auth_failures add column reserved ${integer} not null default 0`,
    `alter table auth_failures add column reserved_until ${integer} not null default 0`,
  ],
  '003-token-limits': ({ serial, integer, text }) => [
    `create table reporters (
      id ${serial},
      user_name ${text} not null,
      token_id ${text} not null unique,
      token_name ${text} not null
    )`,
    `alter table tokens add column repositories ${text}`,
    `alter table tokens add column contexts ${text}`,
    `alter table tokens add column push ${integer} not null default 1`,
    `alter table tokens add column reporter_id ${integer} references reporters (id)`,
    ...addMissingReporters,
    // Not a foreign key: on PostgreSQL each report would lock the row of its reporter. Rows of
    // reporters are never deleted.
    `alter table statuses add column reporter_id ${integer}`,
  ],
  '004-accounts': ({ serial, integer, text }) => [
    `alter table users add column locked_at ${integer}`,
    `alter table sessions add column address ${text}`,
    `alter table sessions add column user_agent ${text}`,
    `create table audit_events (
      id ${serial},
      time ${integer} not null,
      actor ${text} not null check (actor in ('administrator', 'anonymous', 'user')),
      user_id ${integer},
      user_name ${text},
      user_key ${text},
      token_id ${text},
      token_name ${text},
      address ${text},
      action ${text} not null,
      object ${text} not null,
      repository_key ${text},
      details ${text} not null
    )`,
    'create index audit_events_by_time on audit_events (time, id)',
    'create index audit_events_by_user on audit_events (user_key, time, id)',
    'create index audit_events_by_repository on audit_events (repository_key, time, id)',
  ],
  '005-branch-rules': ({ serial, integer, text, clustered }) => [
    `create table branch_rules (
      id ${serial},
      repository_id ${integer} not null references repositories (id) on delete cascade,
      branch_pattern ${text} not null,
      required ${text} not null,
      created_at ${integer} not null,
      unique (repository_id, branch_pattern)
    )`,
    `create table branch_rule_bypasses (
      rule_id ${integer} not null references branch_rules (id) on delete cascade,
      user_id ${integer} not null references users (id) on delete cascade,
      primary key (rule_id, user_id)
    )${clustered}`,
    'create index branch_rule_bypasses_by_user on branch_rule_bypasses (user_id)',
  ],
  // Created the first version of PostgreSQL's function, by another name than now: see `DialectSql`.
  '006-limited-reports': () => [],
  '007-trusted-owners': ({ integer }) => [
    `alter table repositories add column trust_owner ${integer} not null default 0`,
  ],
  '008-push-intents': ({ serial, integer, text }) => [
    `create table push_intents (
      id ${serial},
      repository_id ${integer} not null,
      pusher ${text} not null,
      commands ${text} not null,
      started_at ${integer} not null
    )`,
    `update repositories set trust_owner = 2 where path is not null and trust_owner = 0
      and created_at <= (select applied_at from schema_migrations where name = '007-trusted-owners')`,
  ],
  '009-pending-times': ({ integer }) => [`alter table statuses add column pending_at ${integer}`],
  '010-linked-users': ({ integer, text }) => [
    `alter table users add column oidc_issuer ${text}`,
    `alter table users add column oidc_subject ${text}`,
    `alter table users add column signed_in_at ${integer}`,
    'create unique index users_by_subject on users (oidc_issuer, oidc_subject)',
    `alter table sessions add column ends_at ${integer}`,
  ],
  '011-event-subjects': ({ integer, text }) => [
    `alter table audit_events add column subject_id ${integer}`,
    `alter table audit_events add column subject_name ${text}`,
    `alter table audit_events add column subject_key ${text}`,
    addMissingSubjects,
    // Most events are found by the user: by the actor, or by a subject of whom no other user is the
    // actor.
    `create index audit_events_by_subject on audit_events (subject_key, time, id) where subject_key <> user_key`,
  ],
  '012-repositories-by-name': () => [
    'create index repositories_by_name on repositories (name_key, owner_key)',
  ],
  '013-owners': ({ serial, integer, text, clustered }) => [
    `create table owners (
      id ${serial},
      name ${text} not null,
      name_key ${text} not null unique,
      created_at ${integer} not null
    )`,
    `create table members (
      owner_id ${integer} not null references owners (id) on delete cascade,
      user_id ${integer} not null references users (id) on delete cascade,
      permission ${text} not null check (permission in ('read', 'write', 'admin')),
      primary key (owner_id, user_id)
    )${clustered}`,
    'create index members_by_user on members (user_id)',
    `create table reserved_names (
      owner_id ${integer} not null references owners (id) on delete cascade,
      name ${text} not null,
      name_key ${text} not null,
      repository_id ${integer} not null,
      created_at ${integer} not null,
      primary key (owner_id, name_key)
    )${clustered}`,
    `alter table repositories add column owner_id ${integer} references owners (id)`,
    'create index repositories_by_owner on repositories (owner_id)',
    `alter table collaborators add column granted ${text} check (granted in ('read', 'write', 'admin'))`,
    ...addMissingOwners,
  ],
  '014-push-servers': ({ text }) => [`alter table push_intents add column server ${text}`],
  '015-event-repositories': ({ integer }) => [
    `alter table audit_events add column repository_id ${integer}`,
    `create index audit_events_by_repository_id on audit_events (repository_id, time, id)
      where repository_id is not null`,
    `create index audit_events_of_moves on audit_events (repository_key, time, id)
      where action in ('repository.renamed', 'repository.transferred')`,
  ],
  '016-runs': ({ integer, text }) => [
    `alter table statuses add column run ${text}`,
    `alter table statuses add column run_began_at ${integer}`,
    `alter table statuses add column run_report ${text}`,
  ],
  // The function of versions 0.2.0 and 0.3.0, which no server calls any more. Those of the version
  // before this one remain: its servers may run beside this one.
  '017-functions': ({ functions }) =>
    functions.length === 0
      ? []
      : [
          `drop function if exists report_status(bigint, text, text, text, text, text, text, bigint, bigint, bigint,
            bigint)`,
        ],
  '018-claims': ({ integer, text }) => [
    `alter table statuses add column claim_seconds ${integer}`,
    `alter table statuses add column claim_run ${text}`,
    `alter table statuses add column claimed_at ${integer}`,
    `alter table statuses add column claim_report ${text}`,
    // Not a foreign key, as in `statuses`.
    `alter table users add column reporter_id ${integer}`,
  ],
  '019-branch-moves': ({ integer, text, clustered }) => [
    `create table branch_moves (
      repository_id ${integer} not null references repositories (id) on delete cascade,
      ref ${text} not null,
      push_id ${integer} not null,
      old_id ${text} not null,
      new_id ${text} not null,
      primary key (repository_id, ref, push_id)
    )${clustered}`,
    'create index push_intents_by_repository on push_intents (repository_id)',
    `alter table push_intents add column head ${text}`,
    `alter table push_intents add column gated ${integer}`,
  ],
  '020-reservations': ({ text }) => [`alter table repositories add column reporters ${text}`],
  '021-filtered-events': () => [
    `create index audit_events_of_action on audit_events (repository_id, action, time, id)
      where repository_id is not null`,
    `create index audit_events_of_user on audit_events (repository_id, user_key, action, time, id)
      where repository_id is not null`,
    `create index audit_events_of_subject on audit_events (repository_id, subject_key, time, id)
      where subject_key <> user_key`,
    `create index audit_events_without_id on audit_events (repository_key, time, id)
      where repository_id is null and repository_key is not null`,
  ],
}

/** The database has a schema that this version or the role cannot use. The message says why, and what to do. */
export class UnknownSchema extends ExpectedError {
  override readonly name = 'UnknownSchema'
}

/**
 * Applies all pending migrations in one transaction, and creates the functions that are missing. Any
 * number of processes may call this at once: one of them applies the migrations, while the others
 * wait for it.
 *
 * @param apply false to throw UnknownSchema if one is pending
 * @returns whether the database was that of version 0.2.0 or earlier, whose servers must not run
 * beside those of this version
 * @throws UnknownSchema if a newer version has migrated the database, if it belongs to another
 * program, or if the role may not change the schema
 */
export async function migrate(engine: Engine, apply = true): Promise<boolean> {
  let isFromBeforeOwners = false
  await engine.exclusively(async (db) => {
    const applied = await appliedMigrations(db)
    isFromBeforeOwners = applied.size > 0 && !applied.has('013-owners')
    const pending = Object.entries(migrations).filter(([name]) => !applied.has(name))
    const functions = await missingFunctions(db, engine.dialect)
    const [missing = functions[0]?.name] = pending.map(([name]) => name)
    if (missing === undefined) return
    const problem = `the schema is that of an older version (${missing} is missing)`
    if (!apply) {
      const after = pending.length > 0 ? '; older versions cannot use the database afterwards' : ''
      throw new UnknownSchema(`${problem}. Run "migrate", or start this version of the server${after}`)
    }
    try {
      for (const [name, statements] of pending) await applyMigration(db, name, statements(engine.dialect))
      for (const { sql: statement } of functions) await sql.raw(statement).execute(db)
    } catch (error) {
      if (!(error instanceof PermissionDenied)) throw error
      const todo =
        'and only its owner can change it. Run "migrate" with the credentials of the owner, who needs CREATE on the schema'
      throw new UnknownSchema(`${problem}, ${todo}`, { cause: error })
    }
  })
  return isFromBeforeOwners
}

async function applyMigration(
  db: Transaction<Tables>,
  name: string,
  statements: readonly string[],
): Promise<void> {
  await sql`create table if not exists schema_migrations (name text primary key, applied_at bigint not null)`.execute(
    db,
  )
  for (const statement of statements) await sql.raw(statement).execute(db)
  const applied_at = Math.floor(Date.now() / 1000)
  await db.insertInto('schema_migrations').values({ name, applied_at }).execute()
}

/** Returns the functions that the database does not have. */
async function missingFunctions(
  db: Kysely<Tables>,
  { functions }: DialectSql,
): Promise<readonly SchemaFunction[]> {
  if (functions.length === 0) return []
  const names = sql.join(functions.map(({ name }) => name))
  const { rows } = await sql<{ proname: string }>`select proname from pg_proc
    where proname in (${names}) and pg_function_is_visible(oid)`.execute(db)
  return functions.filter(({ name }) => !rows.some(({ proname }) => proname === name))
}

/**
 * Returns the names of the applied migrations; none if the database is empty.
 *
 * @throws UnknownSchema as `migrate`
 */
export async function appliedMigrations(db: Kysely<Tables>): Promise<Set<string>> {
  const tables = await tablesOf(db)
  const record = tables.find(({ name }) => name === 'schema_migrations')
  if (!record?.columns.some(({ name }) => name === 'name')) {
    const foreign = tables.filter(isInTheWay).map(({ name }) => name)
    if (foreign.length === 0) return new Set()
    throw new UnknownSchema(
      `the database belongs to another program: it contains ${foreign.slice(0, 5).join(', ')}. Use the server's database or an empty one`,
    )
  }
  const rows = await db.selectFrom('schema_migrations').select('name').orderBy('name').execute()
  const names = rows.map(({ name }) => name)
  const unknown = names.filter((name) => !Object.hasOwn(migrations, name))
  if (unknown.length === 0) return new Set(names)
  throw new UnknownSchema(
    `the database was migrated by a newer version (unknown: ${unknown.join(', ')}). ` +
      'Install that version again, or restore a backup from before the upgrade into an empty database',
  )
}

/**
 * Returns the tables of the current schema, in which unqualified names are found; on SQLite, of the
 * database.
 */
async function tablesOf(db: Kysely<Tables>): Promise<TableMetadata[]> {
  const tables = (await db.introspection.getTables()).filter(({ isView }) => !isView)
  if (!tables.some(({ schema }) => schema)) return tables
  const { rows } = await sql<{ name: string }>`select current_schema() as name`.execute(db)
  return tables.filter(({ schema }) => schema === rows[0]?.name)
}

/**
 * Returns whether another program's table prevents the use of the database. On PostgreSQL only one
 * with a name of ours does.
 */
function isInTheWay({ name, schema }: TableMetadata): boolean {
  return schema === undefined || Object.hasOwn(primaryKeys, name)
}

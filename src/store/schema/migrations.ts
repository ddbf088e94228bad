import type { DialectSql } from '../engine.ts'
import {
  addMissingOwners,
  addMissingReporters,
  addMissingRepositories,
  addMissingSubjects,
} from './older-rows.ts'

/** Migrations in the order in which they are applied. Never change a released one; add another. */
export const migrations: Record<string, (dialect: DialectSql) => string[]> = {
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
  // Those of version 0.4.0 remain: see `FIRST_BESIDE`.
  '017-functions': ({ functions }) =>
    functions.length === 0
      ? []
      : [
          `drop function if exists report_status(bigint, text, text, text, text, text, text, bigint, bigint, bigint,
            bigint)`,
        ],
  '018-events-by-repository': (dialect) => [addMissingRepositories(dialect)],
  '019-filtered-events': () => [
    `create index audit_events_of_action on audit_events (repository_id, action, time, id)
      where repository_id is not null`,
    `create index audit_events_of_user on audit_events (repository_id, user_key, action, time, id)
      where repository_id is not null`,
    `create index audit_events_of_subject on audit_events (repository_id, subject_key, time, id)
      where subject_key <> user_key`,
  ],
  '020-unused-index': () => ['drop index audit_events_of_moves'],
  '021-claims': ({ integer, text }) => [
    `alter table statuses add column claim_seconds ${integer}`,
    `alter table statuses add column claim_run ${text}`,
    `alter table statuses add column claimed_at ${integer}`,
    `alter table statuses add column claim_report ${text}`,
  ],
  '022-branch-moves': ({ integer, text, clustered }) => [
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
  '023-reservations': ({ text }) => [`alter table repositories add column reporters ${text}`],
  // Only servers of version 0.4.0 write `permission`; before, nothing could be stored without it.
  '024-one-permission': ({ integer, text, clustered, functions }) =>
    functions.length > 0
      ? ['alter table collaborators alter column permission drop not null']
      : [
          `create table grants (
            repository_id ${integer} not null references repositories (id) on delete cascade,
            user_id ${integer} not null references users (id) on delete cascade,
            permission ${text} check (permission in ('read', 'write')),
            granted ${text} check (granted in ('read', 'write', 'admin')),
            primary key (repository_id, user_id)
          )${clustered}`,
          'insert into grants select repository_id, user_id, permission, granted from collaborators',
          'drop table collaborators',
          'alter table grants rename to collaborators',
          'create index collaborators_by_user on collaborators (user_id)',
        ],
}

/** The first migration of version 0.4.0, the oldest one whose servers may run beside this one. */
export const FIRST_BESIDE = '015-event-repositories'

/**
 * The first of the migrations that lock tables, also against reads, and take a moment. Those between
 * `FIRST_BESIDE` and it may take as long as there are many events, and let older servers read.
 */
export const FIRST_LOCKING = '020-unused-index'

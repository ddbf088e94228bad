import type { Generated, Kysely } from 'kysely'
import type { Permission } from '../domain/permissions.ts'
import type { StatusRow } from './statuses/columns.ts'
import type { Milliseconds, Seconds } from './time.ts'

export const VISIBILITIES = ['public', 'private'] as const
export type Visibility = (typeof VISIBILITIES)[number]

/** The tables as Kysely sees them, the same in every dialect. `migrations.ts` creates them. */
export interface Tables {
  users: {
    /** Never used again once deleted. */
    id: Generated<number>
    name: string
    /** `name` in ASCII lower case, by which names are compared. */
    name_key: string
    /** null for a user who cannot sign in and only uses tokens. */
    password_hash: string | null
    /**
     * Seconds since the epoch; null unless the user is locked: then tokens, sessions and password
     * do not work.
     */
    locked_at: number | null
    /**
     * The account at an OpenID Connect provider that signs in as the user; null unless there is
     * one.
     */
    oidc_issuer: string | null
    oidc_subject: string | null
    /**
     * Seconds since the epoch: the last sign-in with that account, or when it was linked; null
     * unless there is one.
     */
    signed_in_at: Seconds | null
    /** Seconds since the epoch, as every `created_at`. */
    created_at: Seconds
  }
  /**
   * Who can own repositories: one row for each user, who has its name and is a member with `admin`,
   * and for each group.
   */
  owners: {
    /** Never used again once deleted. */
    id: Generated<number>
    name: string
    name_key: string
    created_at: Seconds
  }
  /** What users may do with all repositories of an owner, whatever was granted on one of them. */
  members: {
    owner_id: number
    user_id: number
    permission: Permission
  }
  /** Names that repositories had: nobody else's repository gets them until they are released. */
  reserved_names: {
    owner_id: number
    name: string
    name_key: string
    /** Not a foreign key: the name stays reserved when the repository is deleted. */
    repository_id: number
    created_at: Seconds
  }
  repositories: {
    /** Never used again once deleted. */
    id: Generated<number>
    /** null once it is deleted: see `deleted-repositories.ts`. */
    owner_id: number | null
    /** The name of the owner, by which the repository is found, like `owner_key`. */
    owner: string
    owner_key: string
    name: string
    name_key: string
    visibility: Visibility
    object_format: 'sha1' | 'sha256'
    /**
     * Absolute path of an imported repository; null if the server created it in its own folder,
     * named by `id`.
     */
    path: string | null
    created_at: Seconds
    /** See `OWNER_TRUST`. That of a repository that the server created means nothing. */
    trust_owner: Generated<number>
    /** A JSON array of `Reservation`; null: nothing is reserved. */
    reporters: Generated<string | null>
  }
  collaborators: {
    repository_id: number
    user_id: number
    /** Written by servers of version 0.4.0 alone, and read by none. */
    permission: string | null
    granted: Permission
  }
  /**
   * Who reported: one row for each token, and one for each user who has reported without a token. It
   * keeps the names of users and tokens that are gone, and is never deleted.
   */
  reporters: {
    id: Generated<number>
    user_name: string
    /** `WITHOUT_TOKEN` and the id of a user who reports without a token; `token_name` is empty then. */
    token_id: string
    token_name: string
  }
  tokens: {
    id: string
    user_id: number
    name: string
    /** The first characters of the token, by which its owner recognizes it. */
    prefix: string
    /** SHA-256 of the token in hex. */
    hash: string
    /** Scopes, separated by spaces. */
    scopes: string
    created_at: Seconds
    /** Since the epoch; null if it does not expire. */
    expires_at: Milliseconds | null
    /** Seconds since the epoch. */
    last_used_at: number | null
    /**
     * Ids of the only repositories to which it gives access, each between spaces; null: all of its
     * user's.
     */
    repositories: string | null
    /** Patterns of the only contexts that it may report, as a JSON array; null: all. */
    contexts: string | null
    /** Whether it may push: 0 or 1. */
    push: Generated<number>
    /** Stored with its reports. An old secret of a rotated token has that of the token. */
    reporter_id: number | null
  }
  /** See `columns.ts`. `sha` is in lower case. */
  statuses: StatusRow & {
    repository_id: number
    /** Who sent the latest report; null if it is older than this column. */
    reporter_id: number | null
    /** Time of the last `pending`, if the latest report is it or the one after it; else null. */
    pending_at: number | null
    /**
     * The run that sent the latest report, when it began in milliseconds since the epoch, and what
     * it has reported; null if it named none. See `runs.ts`.
     */
    run: string | null
    run_began_at: number | null
    run_report: string | null
    /**
     * The last report with a claim: its seconds, its run, when it was stored in milliseconds since
     * the epoch by the database's clock, and what it has reported; null without one. See `claims.ts`.
     */
    claim_seconds: number | null
    claim_run: string | null
    claimed_at: number | null
    claim_report: string | null
  }
  sessions: {
    /** SHA-256 of the session's cookie in hex. */
    hash: string
    user_id: number
    created_at: Seconds
    /** Seconds since the epoch, with the resolution of `sessions.ts`. */
    seen_at: number
    /**
     * The client's address and `User-Agent` at `seen_at`; null for a session of an earlier version.
     */
    address: string | null
    user_agent: string | null
    /**
     * When it ends at the latest, for a sign-in with an OpenID Connect provider; null: the usual
     * time after `created_at`.
     */
    ends_at: number | null
  }
  auth_failures: {
    /** The address of a client in the form of `http/address.ts`. */
    address: string
    /** Failures since the window began. The address is blocked once they reach the limit. */
    failures: number
    /** End of the window in milliseconds since the epoch, by the database's clock. */
    ends_at: number
    /** Reservations of attempts whose secret is being compared. They expire at `reserved_until`. */
    reserved: Generated<number>
    /** Milliseconds since the epoch, by the database's clock. */
    reserved_until: Generated<number>
  }
  /** Has no foreign keys: events outlive what they name. */
  audit_events: {
    /** Never used again once deleted. */
    id: Generated<number>
    /** Milliseconds since the epoch. */
    time: number
    actor: 'administrator' | 'anonymous' | 'user'
    /**
     * The actor if it is a user, else the subject.
     */
    user_id: number | null
    user_name: string | null
    /** `user_name` in lower case, by which events are found. */
    user_key: string | null
    /**
     * Whom it concerns, also if that is the actor.
     */
    subject_id: number | null
    subject_name: string | null
    subject_key: string | null
    /** The token with which it was done. */
    token_id: string | null
    token_name: string | null
    /** The client's address in the form of `http/address.ts`. */
    address: string | null
    action: string
    object: string
    /** OWNER/NAME in lower case, by which events are found. */
    repository_key: string | null
    /** null if it is about no repository, or about one that a version before 0.4.0 deleted. */
    repository_id: number | null
    /** A JSON object. */
    details: string
  }
  branch_rules: {
    id: Generated<number>
    repository_id: number
    /**
     * `RefRule.refPattern`, which was about branches alone when the column got its name. At most one
     * rule of a repository has it.
     */
    branch_pattern: string
    /** The patterns of required contexts: a JSON array of strings. */
    required: string
    created_at: Seconds
  }
  /** Users who may push to the rule's branches without its checks. */
  branch_rule_bypasses: {
    rule_id: number
    user_id: number
  }
  /**
   * Pushes on which git may be working. The row is removed together with the record of what the
   * push updated. Has no foreign keys: the repository may be deleted meanwhile.
   */
  push_intents: {
    id: Generated<number>
    repository_id: number
    /** A `Pusher`, in JSON. */
    pusher: string
    /** All updates that the client asks for, in JSON. Names of refs are decoded as Latin-1. */
    commands: string
    /** Milliseconds since the epoch, by the database's clock. */
    started_at: number
    /** The server that began it: see `Presence`. null where its end cannot be seen. */
    server: string | null
    /** The ref that HEAD leaves if the push deletes it, decoded as Latin-1; null if HEAD stays. */
    head: string | null
    /** Whether the repository had rules: 0 or 1; null of a server of version 0.4.0. */
    gated: number | null
  }
  /** How pushes moved branches: for each branch the newest ones since it was created. */
  branch_moves: {
    repository_id: number
    /** Its full name, decoded as Latin-1. */
    ref: string
    /** The id that the push had in `push_intents`. */
    push_id: number
    /** All zeros if the push created the branch. */
    old_id: string
    new_id: string
  }
  schema_migrations: {
    name: string
    applied_at: number
  }
}

/** Where a function reads that writes nothing: a connection, or a transaction. */
export type Queries = Pick<Kysely<Tables>, 'selectFrom'>

/** A primary key, and whether the database numbers the rows: it must never assign an id again. */
type PrimaryKey<Row> = {
  key: readonly (keyof Row)[]
  numbered: Row extends { id: Generated<number> } ? true : false
}

/**
 * The primary key of each table, which comes after those that its foreign keys refer to. Does not
 * compile if a table is missing.
 */
export const primaryKeys = {
  users: { key: ['id'], numbered: true },
  owners: { key: ['id'], numbered: true },
  members: { key: ['owner_id', 'user_id'], numbered: false },
  reserved_names: { key: ['owner_id', 'name_key'], numbered: false },
  repositories: { key: ['id'], numbered: true },
  collaborators: { key: ['repository_id', 'user_id'], numbered: false },
  reporters: { key: ['id'], numbered: true },
  tokens: { key: ['id'], numbered: false },
  sessions: { key: ['hash'], numbered: false },
  auth_failures: { key: ['address'], numbered: false },
  audit_events: { key: ['id'], numbered: true },
  branch_rules: { key: ['id'], numbered: true },
  branch_rule_bypasses: { key: ['rule_id', 'user_id'], numbered: false },
  push_intents: { key: ['id'], numbered: true },
  branch_moves: { key: ['repository_id', 'ref', 'push_id'], numbered: false },
  schema_migrations: { key: ['name'], numbered: false },
  statuses: { key: ['repository_id', 'sha', 'context'], numbered: false },
} as const satisfies { [Table in keyof Tables]: PrimaryKey<Tables[Table]> }

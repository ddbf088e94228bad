import type { Actor, NamedUser } from '../../domain/actors.ts'
import type { Json } from '../../domain/event-details.ts'
import type { NamedUpdate } from '../../domain/ref-updates.ts'

/** A repository, as an event names it. */
export interface NamedRepository {
  /** null for a name that no repository has. */
  id: number | null
  /** OWNER/NAME */
  name: string
}

/**
 * The object of events about backups, which are also found by it: it is stored as the key of their
 * repository, and no repository has it, since keys of repositories contain a slash.
 */
export const BACKUP = 'backup'

/** Actions on a user. */
interface UserActions {
  'user.created': { password: boolean; issuer?: string }
  'user.locked': { sessions: number }
  'user.unlocked': object
  'user.linked': { issuer: string | null; sessions: number }
  'user.unlinked': { issuer: string | null; sessions: number }
  /** What was deleted with the user; the new owner of the user's repositories. */
  'user.deleted': { tokens: number; sessions: number; transferred_to?: string }
  /** How many sessions it ended, and how many tokens still work. */
  'password.set': { sessions: number; tokens: number }
  'sign-in': { issuer?: string | null }
  'sign-out': object
  'session.ended': { sessions: number }
}

/** Actions on a user's token. The object is the token's name. */
interface TokenActions {
  'token.created': {
    id: string
    scopes: readonly string[]
    expires_at: string | null
    repositories?: readonly string[]
    contexts?: readonly string[]
    push?: false
  }
  'token.revoked': { id: string }
  /** `replaced`: the id of the old secret, as a token of its own. */
  'token.rotated': {
    id: string
    expires_at: string | null
    replaced: string
    replaced_expires_at: string | null
  }
}

/** Actions on a group. The object is its name. */
interface GroupActions {
  'group.created': object
  'group.deleted': object
  /** `from`: what the subject had before. */
  'group.member': { user: string; access: string; from: string }
}

/** Actions on a repository. The object is its name, OWNER/NAME. */
interface RepositoryActions {
  'repository.created': { visibility: string; object_format: string }
  'repository.imported': { visibility: string; object_format: string; path: string; trust_owner?: true }
  'repository.deleted': object
  /** Names of the users; null: everybody who may write. `from`: before. */
  'repository.reporters': { pattern: string; users: string[] | null; from: string[] | null }
  /** `from` is the name before, of another owner; the object is the name since then. */
  'repository.transferred': { from: string }
  /** The same for the same owner. */
  'repository.renamed': { from: string }
  /** The object is the name that a repository had. */
  'repository.name-released': object
  /** `from`: what it was before. */
  'repository.visibility': { visibility: string; from: string }
  /** `from`: what the subject was granted before. */
  'repository.access': { user: string; access: string; from: string }
  /**
   * `from`: the branch that HEAD named before; null if it named none. `follows`: whether it leaves
   * branches that pushes delete.
   */
  'repository.default-branch': { from: string | null; to: string | null } | { follows: boolean }
  /** `from`: the rule before; null if it is new. */
  'rule.set': RuleDetails & { branches: string; from: RuleDetails | null }
  'rule.removed': { branches: string; from: RuleDetails }
  /**
   * `reason`: why the update would have been refused, or each of several `updates` of a push.
   * `as`: see `PushedAs`.
   */
  'rule.bypassed': (NamedUpdate | { updates: NamedUpdate[] }) & { reason: string } & PushedAs
  'status.deleted': { sha: string; context: string }
  'status.requested': { sha: string; context: string }
  /**
   * The first updates that git made; those of which it is unknown, because the ref has another
   * value by now; and how many `more` there are. `unreported`: git did not report them, so refs
   * were compared. `interrupted`: the server did not see the end of the push. `unchecked`: patterns
   * of rules that were set too late to decide about it.
   */
  push: {
    updates: NamedUpdate[]
    unknown?: NamedUpdate[]
    more?: number
    unreported?: true
    interrupted?: true
    unchecked?: readonly string[]
  } & PushedAs
}

/**
 * The name that the client of a push used, if the repository has got another one meanwhile. The
 * client sees the event under this name: it may not be allowed to read the repository any more.
 */
export interface PushedAs {
  as?: string
}

interface RuleDetails {
  required: readonly string[]
  bypass: readonly string[]
}

/** Actions on a client's address. */
interface AddressActions {
  /** `after`: what the failure that spent the budget was an attempt at. */
  'address.blocked': { failures: number; window: number; after: string }
  'address.lifted': object
  /**
   * The OpenID Connect provider knows the person, who may not sign in here. Contains nothing that
   * the provider said.
   */
  'sign-in.refused': { issuer: string; reason: string }
}

/**
 * Actions on everything. `problems`: repositories that could not be read, or why there is no new
 * backup; then there is no size either. `locked`: users.
 */
interface BackupActions {
  'backup.completed': BackupSize
  'backup.incomplete': Partial<BackupSize> & { problems: string[] }
  'backup.restored': { created_at: string; locked: number }
}

interface BackupSize {
  repositories: number
  refs: number
  bytes: number
  seconds: number
}

/** Actions on the statuses of commits. */
interface PruneActions {
  /**
   * What was removed so far: statuses of commits without reports since `before`, or of those that
   * git no longer has. It grows with each step.
   */
  'statuses.pruned': PruneReason & { commits: number; statuses: number }
}

/** Why statuses are removed. `before`: in the form of RFC 3339. */
export type PruneReason = { before: string } | { no_longer_in_git: true }

interface LogActions {
  /** The database is empty, although there are repositories of an earlier one. */
  'audit.began': object
  /** Events before this time were removed. */
  'audit.pruned': { before: string }
}

type EventsOf<Actions, Object> = {
  [Action in keyof Actions]: { action: Action; details: Actions[Action] } & Object
}[keyof Actions]

/**
 * Something that matters to the security of accounts and repositories. Never contains a secret.
 *
 * `subject`: whom it concerns, who may be the actor. Of a repository: whose access it changes.
 */
export type AuditEvent =
  | EventsOf<UserActions, { subject: NamedUser }>
  | EventsOf<TokenActions, { token: string; subject: NamedUser }>
  | EventsOf<GroupActions, { group: string; subject?: NamedUser }>
  | EventsOf<RepositoryActions, { repository: NamedRepository; subject?: NamedUser }>
  | EventsOf<AddressActions, { object: string; subject?: NamedUser }>
  | EventsOf<BackupActions, { object: typeof BACKUP }>
  | EventsOf<PruneActions, { object: 'statuses' }>
  | EventsOf<LogActions, object>

/**
 * A stored event as it is printed and logged. No field is a secret, and none has the name of one
 * (`ops/redact.ts`).
 */
export interface AuditLine {
  id: number
  /** UTC with milliseconds. */
  time: string
  actor: Actor['kind']
  /** The user who did it or, if nobody was signed in, the subject. */
  user: string | null
  /** Whom it concerns. */
  subject: string | null
  token_id: string | null
  token_name: string | null
  address: string | null
  action: string
  object: string
  details: Record<string, Json>
}

/** What an event tells about a push. */
export type PushDetails = RepositoryActions['push']

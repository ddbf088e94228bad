import type { Transaction } from 'kysely'
import type { NamedUser, Person } from '../../domain/actors.ts'
import type { Permission } from '../../domain/permissions.ts'
import { checkUnchanged } from '../../domain/refusal.ts'
import type { AuditEvent } from '../audit/audit.ts'
import type { Change, Transact } from '../audit/change.ts'
import type { Queries, Tables } from '../tables.ts'
import { keepUsers, keptUser, lockOwners } from './locked-rows.ts'

/** Users who have permissions on something: members of a group, or collaborators of a repository. */
export interface GrantKind<Subject> {
  /** Returns a text that is the same for the same subject. */
  keyOf(subject: Subject): string
  /** Returns the name of the group, or of the owner of the repository. */
  ownerOf(subject: Subject): string
  /** Returns a subject, by which its grants are stored. @throws Refusal if there is none */
  find(db: Queries, subject: Subject): Promise<Opened>
  /** Does the same for who changes grants, and locks the subject. @throws as `set` */
  open(change: Change<Person>, subject: Subject): Promise<Opened>
  /** Returns what a user is granted; null: nothing. */
  read(db: Queries, id: number, userId: number): Promise<Permission | null>
  /** Stores what a user is granted. @param permission null to remove it */
  write(db: Transaction<Tables>, id: number, userId: number, permission: Permission | null): Promise<unknown>
  /** Returns the event of a change. */
  event(opened: Opened, subject: NamedUser, details: GrantDetails): AuditEvent
  /** Checks, after a change by a user, that it may be. @throws Refusal */
  check?(change: Change<Person>, opened: Opened): Promise<void>
}

interface Opened {
  id: number
  name: string
}

interface GrantDetails {
  user: string
  access: string
  from: string
}

/** A permission to grant to a user; null removes it. */
export interface Grant<Subject> {
  subject: Subject
  userId: number
  permission: Permission | null
}

/** Grants that one transaction stores, which keeps others from writing to the database. */
const STEP = 100

/** Returns functions that set what users are granted. */
export function createGrants<Subject>(db: Queries, kind: GrantKind<Subject>) {
  return {
    /**
     * Sets what a user is granted.
     *
     * @param permission null to remove it
     * @param expected what it is before, as far as the caller knows; default: anything
     * @throws Refusal if it is something else, or there is no such user or subject; ServiceError
     * unless who acts may administer the subject
     */
    async set(
      change: Change<Person>,
      subject: Subject,
      userId: number,
      permission: Permission | null,
      expected?: string,
    ): Promise<void> {
      const users = await keepUsers(change, [userId])
      const opened = await kind.open(change, subject)
      const event = await grant(kind, change, opened, users, { userId, permission, expected })
      if (event) await change.record(event)
      await checkChange(kind, change, opened)
    },

    /**
     * Stores many grants, a few at a time, so that others can write to the database meanwhile.
     * Those that are stored already change nothing, so this can be repeated after it was
     * interrupted.
     *
     * @returns how many changed something
     * @throws as `set`; before anything is changed, if there is no such subject
     */
    async setAll(transact: Transact<Person>, grants: readonly Grant<Subject>[]): Promise<number> {
      const subjects = new Map(grants.map(({ subject }) => [kind.keyOf(subject), subject]))
      for (const subject of subjects.values()) await kind.find(db, subject)
      let changes = 0
      for (let start = 0; start < grants.length; start += STEP)
        changes += await transact(async (change) => {
          const step = grants.slice(start, start + STEP)
          const opened = new Map<string, Opened>()
          const events: AuditEvent[] = []
          const users = await keepUsers(
            change,
            step.map(({ userId }) => userId),
          )
          await lockOwners(
            change,
            step.map(({ subject }) => kind.ownerOf(subject)),
          )
          for (const { subject, userId, permission } of step) {
            const key = kind.keyOf(subject)
            const found = opened.get(key) ?? (await kind.open(change, subject))
            opened.set(key, found)
            const event = await grant(kind, change, found, users, { userId, permission })
            if (event) events.push(event)
          }
          await change.record(...events)
          for (const subject of opened.values()) await checkChange(kind, change, subject)
          return events.length
        })
      return changes
    },
  }
}

async function checkChange<Subject>(kind: GrantKind<Subject>, change: Change<Person>, opened: Opened) {
  if (change.by.kind !== 'administrator') await kind.check?.(change, opened)
}

interface GrantedPermission {
  userId: number
  permission: Permission | null
  /** See `set`. */
  expected?: string | undefined
}

/** Stores a grant. Returns its event, or null, and does nothing, if it is stored already. */
async function grant<Subject>(
  kind: GrantKind<Subject>,
  change: Change,
  opened: Opened,
  users: ReadonlyMap<number, NamedUser>,
  { userId, permission, expected }: GrantedPermission,
): Promise<AuditEvent | null> {
  const from = await kind.read(change.db, opened.id, userId)
  if (from === permission) return null
  const user = keptUser(users, userId)
  checkUnchanged(`the access of ${user.name}`, from ?? 'none', expected)
  await kind.write(change.db, opened.id, user.id, permission)
  const details = { user: user.name, access: permission ?? 'none', from: from ?? 'none' }
  return kind.event(opened, user, details)
}

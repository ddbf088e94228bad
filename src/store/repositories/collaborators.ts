import type { Kysely } from 'kysely'
import type { Permission } from '../../domain/permissions.ts'
import { checkUnchanged } from '../../domain/refusal.ts'
import { type AccessEntry, listAccess } from '../access/access-list.ts'
import { checkRepositoryAdmin } from '../access/administration.ts'
import { type Actor, ADMINISTRATOR, type Audit, getUserById, type Recorder } from '../audit/audit.ts'
import type { Engine } from '../engine.ts'
import type { Tables } from '../tables.ts'
import { fullNameOf, type Repository, type RepositoryStore } from './repositories.ts'

/** A permission to grant to a user on one repository; null removes it. */
export interface Grant {
  owner: string
  name: string
  userId: number
  permission: Permission | null
}

/** Grants that are stored in one transaction, which keeps others from writing to the database. */
const BATCH = 500

/** Returns functions that manage the access of users to repositories. */
export function createCollaboratorStore(
  { kysely }: Engine,
  { get }: Pick<RepositoryStore, 'get'>,
  audit: Audit,
) {
  return {
    /**
     * Sets what a user is granted.
     *
     * @param permission null to remove it
     * @param expected what the user is granted before, as far as the caller knows; default:
     * anything
     * @throws ServiceError as `checkRepositoryAdmin`; Refusal, also if it is something else
     */
    set(
      owner: string,
      name: string,
      userId: number,
      permission: Permission | null,
      by: Actor = ADMINISTRATOR,
      expected?: string,
    ): Promise<void> {
      return audit.transaction(async (db, record) => {
        const repository = await get(owner, name, db)
        await checkRepositoryAdmin(db, by, repository.id)
        await grant(db, record, by, repository, userId, permission, expected)
      })
    },

    /**
     * Stores many grants. Those that are stored already change nothing, so this can be repeated
     * after it was interrupted.
     *
     * @returns how many changed something
     * @throws Refusal, before anything is changed, if there is no such repository
     */
    async setAll(grants: readonly Grant[]): Promise<number> {
      const names = new Map(grants.map((grant) => [fullNameOf(grant), grant]))
      const repositories = new Map<string, Repository>()
      for (const [fullName, { owner, name }] of names) repositories.set(fullName, await get(owner, name))
      let changes = 0
      for (let start = 0; start < grants.length; start += BATCH)
        await audit.transaction(async (db, record) => {
          for (const { userId, permission, ...names } of grants.slice(start, start + BATCH)) {
            const repository = repositories.get(fullNameOf(names))
            if (repository && (await grant(db, record, ADMINISTRATOR, repository, userId, permission)))
              changes++
          }
        })
      return changes
    },

    /** Returns who has access to a repository, and why. The owner comes first. */
    async list(owner: string, name: string): Promise<AccessEntry[]> {
      const { id } = await get(owner, name)
      return listAccess(kysely, { repositoryIds: [id] })
    },

    /** Returns who has access to which repository, and why. */
    listAll: (): Promise<AccessEntry[]> => listAccess(kysely),

    /**
     * Returns the repositories to which a user has access, and why, in the order of their names.
     */
    ofUser: ({ id }: { id: number }): Promise<AccessEntry[]> => listAccess(kysely, { userId: id }),
  }
}

/** Stores a grant and its event. Returns false, and does nothing, if it is stored already. */
async function grant(
  db: Kysely<Tables>,
  record: Recorder,
  by: Actor,
  repository: Repository,
  userId: number,
  permission: Permission | null,
  expected?: string,
): Promise<boolean> {
  const before = await db
    .selectFrom('collaborators')
    .select('granted')
    .where('repository_id', '=', repository.id)
    .where('user_id', '=', userId)
    .executeTakeFirst()
  const from = before?.granted ?? null
  if (from === permission) return false

  const user = await getUserById(db, userId)
  checkUnchanged(`the access of ${user.name}`, from ?? 'none', expected)

  if (permission === null) {
    await db
      .deleteFrom('collaborators')
      .where('repository_id', '=', repository.id)
      .where('user_id', '=', user.id)
      .execute()
  } else {
    const columns = { permission: permission === 'admin' ? 'write' : permission, granted: permission }
    await db
      .insertInto('collaborators')
      .values({ repository_id: repository.id, user_id: user.id, ...columns })
      .onConflict((conflict) => conflict.columns(['repository_id', 'user_id']).doUpdateSet(columns))
      .execute()
  }

  await record({
    by,
    action: 'repository.access',
    repository: fullNameOf(repository),
    subject: user,
    details: { user: user.name, access: permission ?? 'none', from: from ?? 'none' },
  })
  return true
}

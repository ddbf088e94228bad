import { nameKey } from '../../domain/names.ts'
import { type AccessEntry, listAccess } from '../access/access-list.ts'
import { administeredRepository, getRow, type RepositoryName } from '../access/administration.ts'
import { createGrants, type GrantKind } from '../access/grants.ts'
import type { Reading } from '../engine.ts'
import { fullNameOf } from './repositories.ts'

const collaboratorGrants: GrantKind<RepositoryName> = {
  ownerOf: ({ owner }) => owner,
  keyOf: (repository) => nameKey(fullNameOf(repository)),

  async find(db, repository) {
    const row = await getRow(db, repository)
    return { id: row.id, name: fullNameOf(row) }
  },

  async open(change, repository) {
    const row = await administeredRepository(change, repository)
    return { id: row.id, name: fullNameOf(row) }
  },

  async read(db, repositoryId, userId) {
    const row = await db
      .selectFrom('collaborators')
      .select('granted')
      .where('repository_id', '=', repositoryId)
      .where('user_id', '=', userId)
      .executeTakeFirst()
    return row?.granted ?? null
  },

  write(db, repositoryId, userId, permission) {
    if (permission === null)
      return db
        .deleteFrom('collaborators')
        .where('repository_id', '=', repositoryId)
        .where('user_id', '=', userId)
        .execute()
    return db
      .insertInto('collaborators')
      .values({ repository_id: repositoryId, user_id: userId, granted: permission })
      .onConflict((conflict) =>
        conflict.columns(['repository_id', 'user_id']).doUpdateSet({ granted: permission }),
      )
      .execute()
  },

  event: (repository, subject, details) => ({
    action: 'repository.access',
    repository,
    subject,
    details,
  }),
}

/** Returns functions that manage the access of users to repositories. */
export function createCollaboratorStore({ kysely }: Reading) {
  return {
    ...createGrants(kysely, collaboratorGrants),

    /** Returns who has access to a repository, and why. The owner comes first. */
    async list(repository: RepositoryName): Promise<AccessEntry[]> {
      const { id } = await getRow(kysely, repository)
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

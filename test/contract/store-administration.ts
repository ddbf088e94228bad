import type { Store } from '../../src/store/store.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { git, importCommits } from '../helpers/git.ts'
import { addRepository, addToken } from '../helpers/records.ts'
import type { Administration, Repository } from './fixture.ts'

/** Administers an instance through a store on its database. */
export function storeAdministration(store: Store): Administration {
  const find = async (name: string) => {
    const user = await store.users.find(name)
    if (!user) throw new Error(`there is no user ${name}`)
    return user
  }
  return {
    async createUser(name) {
      await asAdministrator(store).users.create(name, { ownExisting: false })
    },
    async createToken(user, { scopes = true, expired = false } = {}) {
      const { id: userId } = await find(user)
      const options = { scopes: scopes ? ['repo'] : [], expiresAt: expired ? Date.now() : null }
      return { ...(await addToken(store, userId, options)), user }
    },
    async revoke({ id }) {
      if (id !== null) await asAdministrator(store).tokens.revoke(id)
    },
    async createRepository(fullName, { commits, ...options }) {
      const { owner, name, path } = await addRepository(store, fullName, { ...options, commits: 0 })
      const ids = importCommits(path, commits)
      git(path, 'update-ref', 'refs/heads/main', ids.at(-1) ?? '')
      return { owner, name, path, commits: ids }
    },
    async setAccess({ owner, name }: Repository, user, permission) {
      await asAdministrator(store).collaborators.set({ owner, name }, (await find(user)).id, permission)
    },
    setVisibility: ({ owner, name }, visibility) =>
      asAdministrator(store).repositories.setVisibility({ owner, name }, visibility),
  }
}

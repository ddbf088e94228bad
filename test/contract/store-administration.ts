import { createToken, hashToken, tokenPrefix } from '../../src/auth/token.ts'
import type { Store } from '../../src/store/store.ts'
import { copyBareRepository, importCommits } from '../helpers/git.ts'
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
      await store.users.create(name, { ownExisting: false })
    },
    async createToken(user, { scopes = true, expired = false } = {}) {
      const secret = createToken()
      const { id } = await store.tokens.create({
        userId: (await find(user)).id,
        name: 'contract',
        prefix: tokenPrefix(secret),
        hash: hashToken(secret),
        scopes: scopes ? ['repo'] : [],
        expiresAt: expired ? Date.now() : null,
      })
      return { id, secret, user }
    },
    async revoke({ id }) {
      if (id !== null) await store.tokens.revoke(id)
    },
    async createRepository(fullName, { private: hidden = false, commits, objectFormat = 'sha1' }) {
      const [owner = '', name = ''] = fullName.split('/')
      const { path } = await store.repositories.create(
        { owner, name, visibility: hidden ? 'private' : 'public', objectFormat },
        (place) => copyBareRepository(place, objectFormat),
      )
      return { owner, name, path, commits: importCommits(path, commits) }
    },
    async setAccess({ owner, name }: Repository, user, permission) {
      await store.collaborators.set(owner, name, (await find(user)).id, permission)
    },
    setVisibility: ({ owner, name }, visibility) => store.repositories.setVisibility(owner, name, visibility),
  }
}

import { createToken, hashToken, tokenPrefix } from '../../src/auth/token.ts'
import type { ObjectFormat } from '../../src/domain/commit-id.ts'
import type { StatusState } from '../../src/domain/states.ts'
import { NO_LIMITS, type TokenLimits } from '../../src/store/access/token-limits.ts'
import type { Repository } from '../../src/store/repositories/repositories.ts'
import type { Store } from '../../src/store/store.ts'
import { asAdministrator } from './changes.ts'
import { copyBareRepository, createCommits } from './git.ts'

export interface TokenOptions {
  name?: string
  scopes?: string[]
  expiresAt?: number | null
  limits?: Partial<TokenLimits>
}

/** Stores a token of a user. */
export async function addToken(
  store: Store,
  userId: number,
  { name = 'test', scopes = ['repo'], expiresAt = null, limits }: TokenOptions = {},
): Promise<{ id: string; secret: string }> {
  const secret = createToken()
  const token = { userId, name, prefix: tokenPrefix(secret), hash: hashToken(secret), scopes, expiresAt }
  const { id } = await asAdministrator(store).tokens.create({ ...token, limits: { ...NO_LIMITS, ...limits } })
  return { id, secret }
}

export interface RepositoryOptions {
  private?: boolean
  objectFormat?: ObjectFormat
  commits?: number
}

/** Creates a repository with commits on `main`, unless there are none. */
export async function addRepository(
  store: Store,
  fullName: string,
  { private: isPrivate = false, objectFormat = 'sha1', commits = 1 }: RepositoryOptions = {},
): Promise<Repository & { commits: string[] }> {
  const [owner = '', name = ''] = fullName.split('/')
  const visibility = isPrivate ? 'private' : 'public'
  const repository = await asAdministrator(store).repositories.create({
    owner,
    name,
    visibility,
    objectFormat,
  })
  await copyBareRepository(repository.path, objectFormat)
  return { ...repository, commits: commits === 0 ? [] : createCommits(repository.path, commits) }
}

/** Stores a report that says only the state. */
export function addReport(
  { store, repositoryId, sha }: { store: Store; repositoryId: number; sha: string },
  context: string,
  state: StatusState = 'success',
) {
  return store.statuses.report({ repositoryId, sha, context, state, description: null, target_url: null })
}

/** Records a push to a branch that git has made; an id of zeros stands for no commit. */
export async function addPush(
  store: Store,
  { id: repositoryId, owner, name }: Pick<Repository, 'id' | 'owner' | 'name'>,
  branch: string,
  [old, next]: readonly [string, string],
): Promise<void> {
  const token = { id: 'x', name: 'ci' }
  const by = { kind: 'user', user: { id: -1, name: 'nobody' }, token, address: '192.0.2.1' } as const
  const pusher = { by, repositoryId, repositoryName: `${owner}/${name}` }
  const update = { ref: `refs/heads/${branch}`, old, new: next }
  await store.pushes.settle(await store.pushes.open(pusher, [update]), pusher, { updates: [update] })
}

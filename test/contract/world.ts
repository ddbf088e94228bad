import { randomBytes } from 'node:crypto'

export type Permission = 'read' | 'write' | null

/** What an administrator can do to an instance while the contract runs against it. */
export interface Administration {
  createUser(name: string): Promise<void>
  /** @param options `expired`: one that has been valid and is no longer */
  createToken(user: string, options?: { scopes?: boolean; expired?: boolean }): Promise<Token>
  revoke(token: Token): Promise<void>
  /** A repository with commits. */
  createRepository(fullName: string, options: RepositoryOptions): Promise<Repository>
  setAccess(repository: Repository, user: string, permission: Permission): Promise<void>
  setVisibility(repository: Repository, visibility: 'public' | 'private'): Promise<void>
}

export interface Token {
  /** null where the run cannot revoke it. */
  id: string | null
  secret: string
  /** Its owner, or what to call whoever that is. */
  user: string
}

interface RepositoryOptions {
  private?: boolean
  commits: number
  objectFormat?: 'sha1' | 'sha256'
}

export interface Repository {
  owner: string
  name: string
  /** Where its files are; null where the run cannot reach them. */
  path: string | null
  /** Full ids. On the last nothing is ever reported. */
  commits: string[]
}

/** Repositories and callers of an instance: who may do what is known, since the run or its user has set it up. */
export interface World {
  /** Anybody may read it; only the writer may write. */
  open: Repository
  /** The writer may write, the reader read, the stranger neither. */
  closed: Repository
  writer: Token
  reader: Token
  stranger: Token
  /** A token without a scope, of a user who may write to both. */
  scopeless: Token
  /** Tokens that no longer work. */
  ended: Token[]
  /** null: the run can only send requests. */
  admin: Administration | null
}

/** Makes all that a run needs, under names that no other run uses. */
export async function createWorld(admin: Administration, commits = 64): Promise<World> {
  const owner = `contract-${randomBytes(5).toString('hex')}`
  const [writer, reader, stranger] = [`${owner}-writer`, `${owner}-reader`, `${owner}-stranger`]
  for (const user of [writer, reader, stranger]) await admin.createUser(user)
  const open = await admin.createRepository(`${owner}/open`, { commits })
  const closed = await admin.createRepository(`${owner}/closed`, { commits, private: true })
  for (const repository of [open, closed]) await admin.setAccess(repository, writer, 'write')
  await admin.setAccess(closed, reader, 'read')
  const revoked = await admin.createToken(writer)
  await admin.revoke(revoked)
  const expired = await admin.createToken(writer, { expired: true })
  return {
    open,
    closed,
    writer: await admin.createToken(writer),
    reader: await admin.createToken(reader),
    stranger: await admin.createToken(stranger),
    scopeless: await admin.createToken(writer, { scopes: false }),
    ended: [revoked, expired],
    admin,
  }
}

/** The commit of a repository on which nothing is ever reported. */
export function cleanCommit({ commits }: Repository): string {
  return commits.at(-1) ?? ''
}

/** The commits of a repository that may be reported on: all but the clean one, if there are several. */
export function commitsOf({ commits }: Repository): string[] {
  return commits.length > 1 ? commits.slice(0, -1) : commits
}

export function pathParams({ owner, name }: Repository, sha: string): Record<string, string> {
  return { owner, repo: name, sha }
}

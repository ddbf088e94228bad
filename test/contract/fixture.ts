import { randomBytes } from 'node:crypto'

export type Permission = 'read' | 'write' | null

/** Administrative operations on an instance under test. */
export interface Administration {
  createUser(name: string): Promise<void>
  /** @param options `expired`: a token that was valid and has expired */
  createToken(user: string, options?: { scopes?: boolean; expired?: boolean }): Promise<Token>
  revoke(token: Token): Promise<void>
  /** A repository with commits. */
  createRepository(fullName: string, options: RepositoryOptions): Promise<Repository>
  setAccess(repository: Repository, user: string, permission: Permission): Promise<void>
  setVisibility(repository: Repository, visibility: 'public' | 'private'): Promise<void>
}

export interface Token {
  /** null if the run cannot revoke it. */
  id: string | null
  secret: string
  /** Name of the owner, or a placeholder. */
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
  /** Path of its files; null if the run cannot access them. */
  path: string | null
  /** Full ids. The last never gets a status. */
  commits: string[]
}

/** Repositories and callers of an instance with known permissions. */
export interface Fixture {
  /** Public; only the writer has write access. */
  open: Repository
  /** Private; the writer has write access, the reader read access, the stranger none. */
  closed: Repository
  writer: Token
  reader: Token
  stranger: Token
  /** A token without scopes of a user with write access to both. */
  scopeless: Token
  /** Expired or revoked tokens. */
  ended: Token[]
  /** null if the run can only send requests. */
  admin: Administration | null
}

/** Creates the users, tokens and repositories of a run, under unique names. */
export async function createFixture(admin: Administration, commits = 64): Promise<Fixture> {
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

/** Returns the commit of a repository that never gets a status. */
export function cleanCommit({ commits }: Repository): string {
  return commits.at(-1) ?? ''
}

/** Returns the commits that may get statuses: all but the clean one, if there are several. */
export function commitsOf({ commits }: Repository): string[] {
  return commits.length > 1 ? commits.slice(0, -1) : commits
}

export function pathParams({ owner, name }: Repository, sha: string): Record<string, string> {
  return { owner, repo: name, sha }
}

import type { Fixture, Repository, Token } from './fixture.ts'

/** Variables that describe an instance that the run cannot administer. */
export const VARIABLES = {
  CONTRACT_PUBLIC_REPOSITORY: 'OWNER/NAME, a public repository with the branch main',
  CONTRACT_PRIVATE_REPOSITORY:
    'OWNER/NAME, a private repository with the branch main that only the writer and the reader can access',
  CONTRACT_PUBLIC_COMMITS: 'its full commit ids, separated by commas; the last must have no statuses',
  CONTRACT_PRIVATE_COMMITS: 'the same for the private repository',
  CONTRACT_WRITER_TOKEN: 'token of a user with write access to both',
  CONTRACT_READER_TOKEN: 'token of a user with read access to the private repository and no write access',
  CONTRACT_STRANGER_TOKEN: 'token of a user without access to either',
  CONTRACT_SCOPELESS_TOKEN: 'token without the scope "repo"',
  CONTRACT_ENDED_TOKENS: 'expired or revoked tokens, separated by commas; may be empty',
} as const

type Variable = keyof typeof VARIABLES

/** Tells whether any of the variables is set. */
export function isDescribed(environment: NodeJS.ProcessEnv): boolean {
  return Object.keys(VARIABLES).some((name) => environment[name])
}

/** Reads the fixture from the environment. @throws Error naming a missing or invalid variable */
export function environmentFixture(environment: NodeJS.ProcessEnv): Fixture {
  const value = (name: Variable): string => {
    const found = environment[name]
    if (found) return found
    throw new Error(`${name} is not set: ${VARIABLES[name]}`)
  }
  const token = (name: Variable): Token => ({ id: null, secret: value(name), user: name })
  const repository = (name: Variable, commits: Variable): Repository => {
    const [owner, repo, ...rest] = value(name).split('/')
    if (!owner || !repo || rest.length > 0) throw new Error(`${name} must be OWNER/NAME`)
    return { owner, name: repo, path: null, commits: split(value(commits)) }
  }
  return {
    open: repository('CONTRACT_PUBLIC_REPOSITORY', 'CONTRACT_PUBLIC_COMMITS'),
    closed: repository('CONTRACT_PRIVATE_REPOSITORY', 'CONTRACT_PRIVATE_COMMITS'),
    writer: token('CONTRACT_WRITER_TOKEN'),
    reader: token('CONTRACT_READER_TOKEN'),
    stranger: token('CONTRACT_STRANGER_TOKEN'),
    scopeless: token('CONTRACT_SCOPELESS_TOKEN'),
    ended: split(environment.CONTRACT_ENDED_TOKENS ?? '').map((secret) => ({
      id: null,
      secret,
      user: 'ended',
    })),
    admin: null,
  }
}

function split(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter(Boolean)
}

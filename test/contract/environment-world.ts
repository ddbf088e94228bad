import type { Repository, Token, World } from './world.ts'

/** The variables that describe an instance which the run can only send requests to. */
export const VARIABLES = {
  CONTRACT_PUBLIC_REPOSITORY: 'OWNER/NAME that anybody may read',
  CONTRACT_PRIVATE_REPOSITORY: 'OWNER/NAME that only the writer and the reader may see',
  CONTRACT_PUBLIC_COMMITS:
    'full commit ids in the public one, separated by commas; nothing is stored on the last',
  CONTRACT_PRIVATE_COMMITS: 'the same for the private one',
  CONTRACT_WRITER_TOKEN: 'token of a user with write access to both',
  CONTRACT_READER_TOKEN:
    'token of a user with read access to the private one, and none to write the public one',
  CONTRACT_STRANGER_TOKEN: 'token of a user who was given access to neither',
  CONTRACT_SCOPELESS_TOKEN: 'token without the scope "repo"',
  CONTRACT_ENDED_TOKENS: 'expired or revoked tokens, separated by commas; may be empty',
} as const

type Variable = keyof typeof VARIABLES

/** Whether any of the variables is set. */
export function isDescribed(environment: NodeJS.ProcessEnv): boolean {
  return Object.keys(VARIABLES).some((name) => environment[name])
}

/** @throws Error naming the variable that is missing or wrong */
export function environmentWorld(environment: NodeJS.ProcessEnv): World {
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

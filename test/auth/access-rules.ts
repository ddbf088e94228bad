/**
 * Who may do what, as few rules: the contract's part 5 for the API and git, and the same for pages, where an anonymous
 * visitor is asked to sign in. What a request looks like to its door follows from how the credential is presented.
 */
export const CALLERS = [
  'anonymous',
  'unknown',
  'expired',
  'revoked',
  'without scope',
  'stranger',
  'reader',
  'writer',
  'owner',
] as const
export const WAYS = ['Bearer', 'token', 'Basic user', 'Basic password', 'cookie'] as const
export const REPOSITORIES = ['public', 'private', 'missing'] as const

export type Caller = (typeof CALLERS)[number]
export type Way = (typeof WAYS)[number]
type Repository = (typeof REPOSITORIES)[number]
type Door = 'api' | 'git' | 'page'

/** The status that a request is answered with. */
export type Expectation = (caller: Caller, way: Way, repository: Repository) => number

/** Part 5. @param success status for those who may */
export function judged(door: 'api' | 'git', access: 'read' | 'write', success: number): Expectation {
  return (presented, way, repository) => {
    const caller = seenAs(door, presented, way)
    if (caller === 'unknown' || caller === 'expired' || caller === 'revoked') return 401
    if (caller === 'without scope') return 403
    if (!canRead(caller, repository)) return caller === 'anonymous' ? 401 : 404
    if (access === 'read' || caller === 'writer' || caller === 'owner') return success
    return caller === 'anonymous' ? 401 : 403
  }
}

/** A repository's page. */
export const repositoryPage: Expectation = (presented, way, repository) => {
  const caller = seenAs('page', presented, way)
  if (canRead(caller, repository)) return 200
  return caller === 'anonymous' ? 303 : 404
}

/** A page for signed-in createSessionAuth. @param status for those */
export function signedIn(status: number): Expectation {
  return (presented, way) => (seenAs('page', presented, way) === 'anonymous' ? 303 : status)
}

/** The same for everybody. */
export function always(status: number): Expectation {
  return () => status
}

function canRead(caller: Caller, repository: Repository): boolean {
  if (repository === 'missing') return false
  return repository === 'public' || caller === 'reader' || caller === 'writer' || caller === 'owner'
}

function seenAs(door: Door, caller: Caller, way: Way): Caller {
  if (caller === 'anonymous') return caller
  if (door === 'page') {
    const ended = caller === 'unknown' || caller === 'expired' || caller === 'revoked'
    if (way !== 'cookie' || ended) return 'anonymous'
    // A session has no scopes; the token without one is the owner's.
    return caller === 'without scope' ? 'owner' : caller
  }
  if (way === 'cookie') return 'anonymous'
  return door === 'api' && way.startsWith('Basic') ? 'unknown' : caller
}

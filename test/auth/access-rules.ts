/**
 * The access rules in compact form: "Order of checks" in openapi.yaml for the API and git, and the
 * same for pages, where an anonymous user is asked to sign in. The way a credential is presented
 * decides whether an interface recognizes it.
 */
export const CALLERS = [
  'anonymous',
  'unknown',
  'expired',
  'revoked',
  'locked',
  'without scope',
  'stranger',
  'reader',
  'writer',
  'admin',
  // Of the owner, with the permission to write.
  'member',
  'owner',
  // The owner, by a token that is limited: to another repository, to fetching, to contexts that are
  // not reported here.
  'limited elsewhere',
  'without push',
  'without context',
] as const
export const WAYS = ['Bearer', 'token', 'Basic user', 'Basic password', 'cookie'] as const
export const REPOSITORIES = ['public', 'private', 'missing'] as const

export type Caller = (typeof CALLERS)[number]
export type Way = (typeof WAYS)[number]
type Repository = (typeof REPOSITORIES)[number]
type Interface = 'api' | 'git' | 'page'

/** Returns the expected status of a request. */
export type Expectation = (caller: Caller, way: Way, repository: Repository) => number

const WRITERS: readonly Caller[] = ['writer', 'admin', 'member', 'owner']
/** Those who are not the owner. */
const OTHERS: readonly Caller[] = ['stranger', 'reader', 'writer', 'admin', 'member']
/** The limited token that may write there. */
const LIMITED_IN = { api: 'without push', git: 'without context' } as const

/**
 * Applies steps 3 to 6 of "Order of checks" in openapi.yaml.
 *
 * @param success status when access is granted
 */
export function contractRules(target: 'api' | 'git', access: 'read' | 'write', success: number): Expectation {
  return (presented, way, repository) => {
    const caller = recognizedAs(target, presented, way)
    if (isRefused(caller)) return 401
    if (caller === 'without scope') return 403
    if (!canRead(caller, repository)) return caller === 'anonymous' ? 401 : 404
    if (access === 'read') return success
    if (caller === 'anonymous') return 401
    return WRITERS.includes(caller) || caller === LIMITED_IN[target] ? success : 403
  }
}

/** Rules for the page of a repository. */
export const repositoryPage: Expectation = (presented, way, repository) => {
  const caller = recognizedAs('page', presented, way)
  if (canRead(caller, repository)) return 200
  return caller === 'anonymous' ? 303 : 404
}

/** Rules for what leads to a page of a repository. */
export const leadingToPage: Expectation = (...asked) => {
  const status = repositoryPage(...asked)
  return status === 200 ? 303 : status
}

/** Rules for the settings of a repository. */
export const settingsPage: Expectation = (presented, way, repository) => {
  const caller = recognizedAs('page', presented, way)
  if (caller === 'anonymous') return 303
  if (!canRead(caller, repository)) return 404
  return caller === 'admin' || caller === 'owner' ? 200 : 403
}

/** Rules for what looks at no credential: a badge. */
export const publicOnly: Expectation = (_presented, _way, repository) => (repository === 'public' ? 200 : 404)

/** Rules for pages that require sign-in. @param status for signed-in users */
export function signedIn(status: number): Expectation {
  return (presented, way) => (recognizedAs('page', presented, way) === 'anonymous' ? 303 : status)
}

/** The same status for every caller. */
export function always(status: number): Expectation {
  return () => status
}

function canRead(caller: Caller, repository: Repository): boolean {
  if (repository === 'missing') return false
  return repository === 'public' || !['anonymous', 'stranger', 'limited elsewhere'].includes(caller)
}

/** Returns whether the caller's token and session do not work. */
function isRefused(caller: Caller): boolean {
  return caller === 'unknown' || caller === 'expired' || caller === 'revoked' || caller === 'locked'
}

function recognizedAs(target: Interface, caller: Caller, way: Way): Caller {
  if (caller === 'anonymous') return caller
  if (target === 'page') {
    if (way !== 'cookie' || isRefused(caller)) return 'anonymous'
    // A session has no scopes and no limits; these callers' sessions are the owner's.
    return OTHERS.includes(caller) ? caller : 'owner'
  }
  if (way === 'cookie') return 'anonymous'
  return target === 'api' && way.startsWith('Basic') ? 'unknown' : caller
}

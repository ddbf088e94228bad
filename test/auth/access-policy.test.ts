import t from 'tap'
import { applyAccessPolicy, type Requirement } from '../../src/auth/access-policy.ts'
import { ServiceError } from '../../src/errors.ts'
import type { Access } from '../../src/store/access/access.ts'
import { NO_LIMITS } from '../../src/store/access/token-limits.ts'
import { isExpired } from '../../src/store/token-validity.ts'

const now = 1_800_000_000_000
const write: Requirement = { access: 'write', scopes: ['repo'] }
const read: Requirement = { access: 'read', scopes: ['repo'] }

type Token = NonNullable<Access['token']>
type Repository = NonNullable<Access['repository']>
const tokens: Record<string, Partial<Token> | null> = {
  good: {},
  'good until later': { expiresAt: now + 1 },
  'with more scopes': { scopes: ['other', 'repo'] },
  expired: { expiresAt: now },
  'long expired': { expiresAt: 0 },
  'of a user who signed in': { signInDue: now + 1 },
  'of a user who has left': { signInDue: now },
  'without scope': { scopes: [] },
  'with another scope': { scopes: ['repository', 'rep'] },
  unknown: null,
}

/** Returns the error code of the first broken rule, or null when access is granted. */
function errorCode(
  requirement: Requirement,
  token: Partial<Token> | null | 'anonymous',
  repository: Partial<Repository> | null,
) {
  const access: Access = {
    failures: null,
    token:
      token === null || token === 'anonymous'
        ? null
        : {
            id: 'x',
            name: 'CI',
            userId: 1,
            userName: 'alice',
            scopes: ['repo'],
            expiresAt: null,
            signInDue: null,
            lastUsedAt: null,
            limits: NO_LIMITS,
            reporterId: null,
            ...token,
          },
    repository: repository && {
      id: 1,
      owner: 'alice',
      name: 'r',
      visibility: 'public',
      objectFormat: 'sha1',
      path: '/r',
      managed: true,
      ownerTrust: 'trusted',
      permission: null,
      reservations: null,
      ...repository,
    },
  }
  try {
    applyAccessPolicy(access, token === 'anonymous', requirement, now)
    return null
  } catch (error) {
    if (error instanceof ServiceError) return error.code
    throw error
  }
}

/** Steps 3 to 6, spelled out for every combination of token, permission and requirement. */
t.test('every combination of token, permission and requirement', async (t) => {
  for (const [name, token] of [...Object.entries(tokens), ['anonymous', 'anonymous'] as const]) {
    for (const permission of ['unreadable', null, 'read', 'write'] as const) {
      if (token === 'anonymous' && (permission === 'read' || permission === 'write')) continue
      const repository = permission === 'unreadable' ? null : { permission }
      for (const requirement of [read, write]) {
        const what = `${name}: ${requirement.access} with permission ${permission}`
        t.equal(errorCode(requirement, token, repository), expected(name, permission, requirement), what)
      }
    }
  }
})

function expected(token: string, permission: string | null, { access }: Requirement): string | null {
  if (['expired', 'long expired', 'of a user who has left', 'unknown'].includes(token))
    return 'credential_unknown'
  if (['without scope', 'with another scope'].includes(token)) return 'scope_missing'
  const anonymous = token === 'anonymous'
  if (permission === 'unreadable') return anonymous ? 'credential_missing' : 'repository_unknown'
  if (access === 'read' || permission === 'write') return null
  return anonymous ? 'credential_missing' : 'read_only'
}

t.test('a token expires at the exact millisecond of its expiry', async (t) => {
  t.equal(isExpired(null, now), false)
  t.equal(isExpired(now + 1, now), false)
  t.equal(isExpired(now, now), true)
  t.equal(isExpired(now - 1, now), true)
})

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Oidc } from '../../../auth/oidc.ts'
import type { SessionAuth } from '../../session/session-auth.ts'
import { localPath } from './sign-in-page.ts'

/** Seconds that people may take at the provider. */
const LIFETIME = 600
/** Attempts of one browser at a time, in tabs of their own. */
const MOST = 5
/**
 * Bytes of the longest path in a cookie, as it is encoded there: the cookies of all attempts are one
 * header, which proxies limit to 8 KiB.
 */
const MAX_NEXT = 1_000
const PREFIX = 'sign-in-'
/** Characters of the state in the name of a cookie. */
const NAME_LENGTH = 16

/** A sign-in that this browser has begun. */
interface Attempt {
  secret: string
  /** Path to which the sign-in returns. */
  next: string
}

/**
 * Keeps attempts to sign in, each in a cookie of its own, which is the only trace of it: nobody can
 * fill a table, and only this browser can finish it.
 */
export function createAttempts(
  sessionAuth: Pick<SessionAuth, 'createCookie' | 'cookieNames'>,
  { stateOf }: Pick<Oidc, 'stateOf'>,
) {
  const cookieOf = (state: string) => sessionAuth.createCookie(PREFIX + state.slice(0, NAME_LENGTH))

  return {
    /** Begins an attempt. Gives up the oldest ones if there are too many. */
    begin(request: FastifyRequest, reply: FastifyReply, { secret, next }: Attempt): void {
      // Browsers send cookies of the same path in the order in which they were set.
      const names = sessionAuth.cookieNames(request).filter((name) => name.startsWith(PREFIX))
      for (const name of names.slice(0, Math.max(0, names.length + 1 - MOST)))
        sessionAuth.createCookie(name).set(request, reply, '', 0)
      const value = secret + (encodeURIComponent(next).length > MAX_NEXT ? '/' : next)
      cookieOf(stateOf(secret)).set(request, reply, value, LIFETIME)
    },

    /** Ends an attempt. @returns undefined if this browser has none with this state */
    take(request: FastifyRequest, reply: FastifyReply, state: string): Attempt | undefined {
      const cookie = cookieOf(state)
      const [, secret, path] = /^([\w-]{43})(\/.*)$/.exec(cookie.read(request) ?? '') ?? []
      if (secret === undefined || stateOf(secret) !== state) return undefined
      cookie.set(request, reply, '', 0)
      return { secret, next: localPath(path) }
    },
  }
}

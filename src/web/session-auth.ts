import { createHash, randomBytes } from 'node:crypto'
import Tokens from '@fastify/csrf'
import { parseCookie, type SetCookie, stringifySetCookie } from 'cookie'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { ServiceError } from '../errors.ts'
import type { SessionUser } from '../store/sessions.ts'
import type { Store } from '../store/store.ts'

/** Who looks at a page. */
export interface Visitor {
  /** null: not signed in. */
  user: SessionUser | null
  /** A token for the forms of this page, bound to the visitor's cookie. */
  csrfToken(): string
}

export type SessionAuth = ReturnType<typeof createSessionAuth>

const csrf = Tokens()

/**
 * SessionAuth and their sessions. A cookie holds a random number and nothing else. Before sign-in it only binds the
 * forms; what it says after sign-in is in the database, so that signing out ends it there.
 *
 * @param publicUrl origin that people use; null: that of the request
 */
export function createSessionAuth(sessions: Store['sessions'], publicUrl: string | null) {
  const isSecure = (request: FastifyRequest) => publicUrl?.startsWith('https:') ?? request.client.secure
  // The prefix keeps neighbouring hosts and plain http from planting a cookie of this name; it demands https.
  const cookieName = (request: FastifyRequest) => (isSecure(request) ? '__Host-session' : 'session')
  const setCookie = (
    request: FastifyRequest,
    reply: FastifyReply,
    value: string,
    more?: Partial<SetCookie>,
  ) =>
    reply.header(
      'set-cookie',
      stringifySetCookie({
        name: cookieName(request),
        value,
        path: '/',
        httpOnly: true,
        sameSite: 'lax',
        secure: isSecure(request),
        ...more,
      }),
    )
  const readSessionCookie = (request: FastifyRequest) => {
    const cookie = parseCookie(request.headers.cookie ?? '')[cookieName(request)]
    return cookie && /^[\w-]{43}$/.test(cookie) ? cookie : undefined
  }
  const give = (request: FastifyRequest, reply: FastifyReply) => {
    const secret = randomBytes(32).toString('base64url')
    setCookie(request, reply, secret)
    return secret
  }

  return {
    async identify(request: FastifyRequest, reply: FastifyReply): Promise<Visitor> {
      let secret = readSessionCookie(request)
      const user = secret === undefined ? undefined : await sessions.use(hash(secret))
      return {
        user: user ?? null,
        csrfToken() {
          secret ??= give(request, reply)
          return csrf.create(secret)
        },
      }
    },

    /** @throws ServiceError `csrf_wrong` unless the form is one that this visitor was given */
    checkForm(request: FastifyRequest, form: URLSearchParams): void {
      const secret = readSessionCookie(request)
      if (!secret || !csrf.verify(secret, form.get('csrf') ?? '')) throw new ServiceError('csrf_wrong')
    },

    /** Begins a session under a new number: one that was planted before is worth nothing. */
    async signIn(request: FastifyRequest, reply: FastifyReply, userId: number): Promise<void> {
      const before = readSessionCookie(request)
      if (before) await sessions.end(hash(before))
      await sessions.create(hash(give(request, reply)), userId)
    },

    async signOut(request: FastifyRequest, reply: FastifyReply): Promise<void> {
      const secret = readSessionCookie(request)
      if (secret) await sessions.end(hash(secret))
      setCookie(request, reply, '', { maxAge: 0 })
    },
  }
}

function hash(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

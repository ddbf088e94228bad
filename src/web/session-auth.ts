import { createHash, randomBytes } from 'node:crypto'
import Tokens from '@fastify/csrf'
import { parseCookie, type SetCookie, stringifySetCookie } from 'cookie'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { ServiceError } from '../errors.ts'
import type { SessionUser } from '../store/sessions.ts'
import type { Store } from '../store/store.ts'

/** The visitor of a page. */
export interface Visitor {
  /** null when not signed in. */
  user: SessionUser | null
  /** Path of the page, to which sign-in returns; `/` if the request was not a GET. */
  path: string
  /** Returns a token for the forms of this page, bound to the visitor's cookie. */
  csrfToken(): string
}

export type SessionAuth = ReturnType<typeof createSessionAuth>

const csrf = Tokens()

/**
 * Authenticates visitors by session cookies. A cookie holds only a random secret. Before sign-in it binds forms to the
 * browser; after sign-in its session is in the database, where signing out ends it.
 *
 * @param publicUrl the public origin; null for the origin of the request
 */
export function createSessionAuth(sessions: Store['sessions'], publicUrl: string | null) {
  const isSecure = (request: FastifyRequest) => publicUrl?.startsWith('https:') ?? request.client.secure
  // With this prefix browsers reject cookies set by other subdomains or over plain http. It requires https.
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
  const issueCookie = (request: FastifyRequest, reply: FastifyReply) => {
    const secret = randomBytes(32).toString('base64url')
    setCookie(request, reply, secret)
    return secret
  }

  return {
    /** Returns the visitor who sends the request. */
    async identify(request: FastifyRequest, reply: FastifyReply): Promise<Visitor> {
      let secret = readSessionCookie(request)
      const user = secret === undefined ? undefined : await sessions.use(hash(secret))
      return {
        user: user ?? null,
        path: request.method === 'GET' || request.method === 'HEAD' ? request.url : '/',
        csrfToken() {
          secret ??= issueCookie(request, reply)
          return csrf.create(secret)
        },
      }
    },

    /** Checks that the form was issued to this visitor. @throws ServiceError `csrf_wrong` */
    checkForm(request: FastifyRequest, form: URLSearchParams): void {
      const secret = readSessionCookie(request)
      if (!secret || !csrf.verify(secret, form.get('csrf') ?? '')) throw new ServiceError('csrf_wrong')
    },

    /** Starts a session with a new secret, against session fixation, and ends the previous one. */
    async signIn(request: FastifyRequest, reply: FastifyReply, userId: number): Promise<void> {
      const before = readSessionCookie(request)
      if (before) await sessions.end(hash(before))
      await sessions.create(hash(issueCookie(request, reply)), userId)
    },

    /** Ends the visitor's session and deletes the cookie. */
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

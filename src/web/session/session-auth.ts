import { createHash, randomBytes } from 'node:crypto'
import Tokens from '@fastify/csrf'
import { parseCookie, stringifySetCookie } from 'cookie'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Session } from '../../auth/session.ts'
import type { SignedIn } from '../../domain/actors.ts'
import { ServiceError } from '../../errors.ts'
import type { SessionClient, SessionUser } from '../../store/accounts/sessions.ts'
import type { User } from '../../store/accounts/user-rows.ts'
import type { PasswordChange } from '../../store/accounts/users.ts'
import type { Transact } from '../../store/audit/change.ts'
import type { Store } from '../../store/store.ts'
import { insteadOf } from '../../util/expected-errors.ts'

interface SessionStore extends Pick<Store, 'audit'> {
  sessions: Pick<Store['sessions'], 'create' | 'signOut' | 'use'>
  users: Pick<Store['users'], 'setOwnPassword'>
}

export type SessionAuth = ReturnType<typeof createSessionAuth>

const csrf = Tokens()
/** Characters of a `User-Agent` that are stored. Browsers send up to 200. */
const MAX_USER_AGENT = 255
/** Seconds in which the next page shows what a request has done. */
const MESSAGE_LIFETIME = 60
/** Bytes of a message as a cookie encodes it: browsers drop a cookie above 4,096, with its name and attributes. */
const MESSAGE_BYTES = 3_800
/** Characters of a path to which sign-in returns. */
const MAX_RETURN_PATH = 2_000

/**
 * Authenticates users by session cookies. A cookie holds only a random secret. Before sign-in it
 * binds forms to the browser; after sign-in its session is in the database, where signing out ends
 * it.
 */
export function createSessionAuth({ audit, sessions, users }: SessionStore) {
  const isSecure = (request: FastifyRequest) => request.client.origin().startsWith('https:')
  // With this prefix, browsers reject cookies that other subdomains or plain http set.
  const prefixFor = (request: FastifyRequest, path = '/') => {
    if (!isSecure(request)) return ''
    return path === '/' ? '__Host-' : '__Secure-'
  }
  const createCookie = (ownName: string, path = '/') => {
    const nameFor = (request: FastifyRequest) => prefixFor(request, path) + ownName
    return {
      read: (request: FastifyRequest) => parseCookie(request.headers.cookie ?? '')[nameFor(request)],
      set(request: FastifyRequest, reply: FastifyReply, value: string, maxAge?: number): void {
        const cookie = stringifySetCookie({
          name: nameFor(request),
          value,
          path,
          httpOnly: true,
          sameSite: 'lax',
          secure: isSecure(request),
          ...(maxAge !== undefined && { maxAge }),
        })
        reply.header('set-cookie', cookie)
      },
    }
  }
  const cookie = createCookie('session')
  const message = createCookie('message')
  const readSessionCookie = (request: FastifyRequest) => {
    const secret = cookie.read(request)
    return secret && /^[\w-]{43}$/.test(secret) ? secret : undefined
  }
  const issueCookie = (request: FastifyRequest, reply: FastifyReply) => {
    const secret = createSecret()
    cookie.set(request, reply, secret)
    return secret
  }

  /** Returns a function that changes something for the user who sends the request. */
  const transact =
    (request: FastifyRequest): Transact<SignedIn> =>
    async (work) =>
      audit.transaction(signedIn(request), work)

  return {
    transact,

    /**
     * Returns functions that read and set another cookie, which is sent to `path` and below. `maxAge`:
     * in seconds; 0 deletes it; none: until the browser is closed.
     */
    createCookie,

    /** Returns the names of the cookies that the browser has sent, in their order. */
    cookieNames(request: FastifyRequest): string[] {
      const prefix = prefixFor(request)
      const names = Object.keys(parseCookie(request.headers.cookie ?? ''))
      return names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length))
    },

    /** Returns the user who sends the request. */
    async identify(request: FastifyRequest, reply: FastifyReply): Promise<Session> {
      let secret = readSessionCookie(request)
      // Pages send this when they ask for changes by themselves, which is no sign of the user.
      const extend = request.headers['x-live'] === undefined
      const user =
        secret === undefined ? undefined : await sessions.use(hash(secret), sessionClient(request), extend)
      if (secret !== undefined && user) {
        const session = { ...userSession(request, user, secret), snapshot: user.snapshot }
        const text = request.method === 'GET' && extend ? message.read(request) : undefined
        if (!text) return session
        message.set(request, reply, '', 0)
        return { ...session, message: text }
      }
      return {
        user: null,
        path: returnPath(request),
        csrfToken() {
          secret ??= issueCookie(request, reply)
          return csrf.create(secret)
        },
      }
    },

    /** Checks that a session has not ended since the request began. @throws ServiceError */
    async check(request: FastifyRequest): Promise<void> {
      const { hash } = sessionOf(request)
      if (hash !== undefined && !(await sessions.use(hash, sessionClient(request), false)))
        throw new ServiceError('session_ended')
    },

    /** Redirects to a page, which says in a sentence what this request has done. */
    redirect(request: FastifyRequest, reply: FastifyReply, path: string, text?: string): FastifyReply {
      if (text !== undefined) message.set(request, reply, shorten(text), MESSAGE_LIFETIME)
      return reply.redirect(path, 303)
    },

    /** Checks that the form was issued to this user. @throws ServiceError `csrf_wrong` */
    checkForm(request: FastifyRequest, form: URLSearchParams): void {
      const secret = readSessionCookie(request)
      if (!secret || !csrf.verify(secret, form.get('csrf') ?? '')) throw new ServiceError('csrf_wrong')
    },

    /**
     * Starts a session with a new secret, against session fixation, and ends the browser's previous
     * one.
     *
     * @param user as read when the password was compared, or the provider's account found
     * @param byProvider whether the user signed in with an OpenID Connect provider
     * @returns false, without a session, if the password or the link was changed or the user locked
     *   meanwhile
     */
    async signIn(
      request: FastifyRequest,
      reply: FastifyReply,
      user: User,
      byProvider = false,
    ): Promise<boolean> {
      const before = readSessionCookie(request)
      const secret = createSecret()
      const previous = before === undefined ? undefined : hash(before)
      const started = await sessions.create(hash(secret), user, sessionClient(request), previous, byProvider)
      if (started) cookie.set(request, reply, secret)
      return started
    },

    /**
     * Sets the user's password, ends all other sessions of the user, and gives this one a new
     * secret.
     *
     * @param user as read when the current password was compared
     * @returns null, without a change, if the password was changed meanwhile
     */
    async setPassword(
      request: FastifyRequest,
      reply: FastifyReply,
      user: User,
      passwordHash: string,
    ): Promise<PasswordChange | null> {
      const secret = createSecret()
      const ended = await transact(request)((change) =>
        users.setOwnPassword(change, user, passwordHash, hash(secret)),
      )
      if (ended) {
        cookie.set(request, reply, secret)
        request.session = userSession(request, user, secret)
      }
      return ended
    },

    /** Records that somebody whom the provider knows may not sign in here. */
    recordRefusal(request: FastifyRequest, issuer: string, reason: string): Promise<void> {
      const { address } = request.client
      const event = { action: 'sign-in.refused', object: address, details: { issuer, reason } } as const
      return audit.transaction({ kind: 'anonymous', address }, (change) => change.record(event))
    },

    /** Ends the session and deletes the cookie. @returns whether the user signs in by a provider */
    async signOut(request: FastifyRequest, reply: FastifyReply): Promise<boolean> {
      cookie.set(request, reply, '', 0)
      if (!sessionOf(request).user) return false
      // It may have ended meanwhile, which is the desired result.
      return transact(request)(sessions.signOut).catch(insteadOf(ServiceError, false))
    },
  }
}

function userSession(request: FastifyRequest, { id, name }: SessionUser, secret: string): Session {
  return {
    user: { id, name },
    path: returnPath(request),
    hash: hash(secret),
    csrfToken: () => csrf.create(secret),
  }
}

/** Returns the path to which sign-in returns. */
function returnPath(request: FastifyRequest): string {
  return isRead(request) ? request.url : '/'
}

function isRead({ method }: FastifyRequest): boolean {
  return method === 'GET' || method === 'HEAD'
}

/** Returns who acts by sending the request. @throws ServiceError if nobody is signed in */
function signedIn(request: FastifyRequest): SignedIn {
  const { user, hash: session } = sessionOf(request)
  if (!user || session === undefined) throw new ServiceError('session_ended')
  return { kind: 'user', user, address: request.client.address, session }
}

/**
 * Returns a hook that sends anonymous users to the sign-in page. It returns to the page that they
 * asked for.
 *
 * @param path to return to after what was no question for a page
 */
export function requireSignIn(path: string) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    if (sessionOf(request).user) return
    return reply.redirect(signInPath(isRead(request) ? request.url : path), 303)
  }
}

/**
 * Returns the path of the sign-in page that returns to `path`, or to the start page if it is long.
 */
export function signInPath(path: string): string {
  // Encoded, it may be three times as long, and clients refuse headers of more than 16 KB.
  return path.length > MAX_RETURN_PATH ? '/login' : `/login?next=${encodeURIComponent(path)}`
}

/** Returns the session of a page. */
export function sessionOf({ session }: FastifyRequest): Session {
  if (!session) throw new Error('only pages have sessions')
  return session
}

/** Returns the signed-in user of a page that requires one. */
export function userOf(request: FastifyRequest): SessionUser {
  const { user } = sessionOf(request)
  if (!user) throw new Error('the user is not signed in')
  return user
}

function sessionClient({ client, headers }: FastifyRequest): SessionClient {
  const userAgent = headers['user-agent']?.slice(0, MAX_USER_AGENT) ?? null
  return { address: client.address, userAgent }
}

function createSecret(): string {
  return randomBytes(32).toString('base64url')
}

function hash(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

/** Cuts a message so that browsers accept its cookie. */
function shorten(text: string): string {
  let [kept, bytes] = ['', 0]
  for (const character of text) {
    bytes += encodeURIComponent(character).length
    if (bytes > MESSAGE_BYTES) return `${kept}…`
    kept += character
  }
  return text
}

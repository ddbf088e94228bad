/** Whoever runs the administrator's command line. */
export interface Administrator {
  kind: 'administrator'
}

/** A client without an identity. */
export interface Anonymous {
  kind: 'anonymous'
  /** In the form of `http/address.ts`. */
  address: string
}

/** The server, which completes what others have begun: its events name these. */
export interface Server {
  kind: 'server'
}

interface User {
  kind: 'user'
  user: NamedUser
  /** In the form of `http/address.ts`. */
  address: string
}

/** A user in a browser. */
export interface SignedIn extends User {
  /** The hash under which the session is stored. */
  session: string
  token?: never
  account?: never
}

/** A user's token. */
export interface TokenHolder extends User {
  token: { id: string; name: string }
  session?: never
  account?: never
}

/** A user whose password has just been compared, or whom the provider has just identified. */
export interface SigningIn extends User {
  /** What was stored then. */
  account: { passwordHash: string | null; subject: string | null }
  session?: never
  token?: never
}

/**
 * Who changes something. A user has exactly one of a session, a token and an account: by it, the
 * transaction of the change checks that the user may still act.
 */
export type Actor = Administrator | Anonymous | Server | SignedIn | TokenHolder | SigningIn

/** Who administers: users, groups, repositories and their rules. No token does. */
export type Person = Administrator | SignedIn

/** Whom an event names. */
export type Author = Administrator | Anonymous | (User & Partial<Pick<TokenHolder, 'token'>>)

/** A user, also one that has been deleted. */
export interface NamedUser {
  id: number
  name: string
}

/** Who pushes to which repository. */
export interface Pusher {
  by: TokenHolder
  repositoryId: number
  /** OWNER/NAME as in the request. */
  repositoryName: string
}

/** The actor of the administrator's command line. */
export const ADMINISTRATOR: Administrator = { kind: 'administrator' }

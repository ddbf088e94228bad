import type { SessionUser } from '../store/accounts/sessions.ts'

/** A browser's session, as a page sees it: with a signed-in user, or without one. */
export interface Session {
  /** null when not signed in. */
  user: SessionUser | null
  /** Path of the page, to which sign-in returns; `/` if the request was not a GET. */
  path: string
  /** What the request before this one did, in a sentence. */
  message?: string
  /** Under which the session of a signed-in user is stored. */
  hash?: string
  /** The version of the database with which it was read; see `createVersions`. */
  snapshot?: string
  /** Returns a token for the forms of this page, bound to the user's cookie. */
  csrfToken(): string
}

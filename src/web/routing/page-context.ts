import type { Budget } from '../../auth/budget.ts'
import type { Oidc } from '../../auth/oidc.ts'
import type { Branches } from '../../branches/branches.ts'
import type { Breakages } from '../../branches/breakages.ts'
import type { CommitLog } from '../../git/history/log.ts'
import type { RefLists } from '../../git/history/ref-lists.ts'
import type { Revisions } from '../../git/history/revision.ts'
import type { CommitLookup } from '../../git/objects/commit-lookup.ts'
import type { Visibility } from '../../store/tables.ts'
import type { FindUser } from '../forms/find-user.ts'
import type { SendErrorPage } from '../layout/error-page.ts'
import type { SessionAuth } from '../session/session-auth.ts'
import type { OpenPages } from './open-pages.ts'
import type { PageQueue } from './page-queue.ts'
import type { PageStore } from './page-store.ts'

/** What pages are given by the application. */
export interface WebOptions {
  store: PageStore
  lookup: CommitLookup
  branches: Branches
  budget: Budget
  /** The same budget, but attempts that wait for the provider delay no others. */
  providerBudget: Budget
  sessionAuth: SessionAuth
  sendErrorPage: SendErrorPage
  /** Milliseconds for which a new token may live; null: for ever. */
  tokenMaxLifetime: number | null
  /** The OpenID Connect provider; null: there is none. */
  oidc: Oidc | null
  /** Whether people can sign in with passwords. */
  passwordSignIn: boolean
  /** Whether users create repositories here. */
  repositoryCreation: boolean
  /** What the form for a new repository proposes. */
  defaultVisibility: Visibility
  /** Seconds after which a pending check is stalled. */
  stalledAfter: number
  /** How long a form may take to arrive, in milliseconds. */
  bodyTimeout: number
}

/**
 * What all pages share. They change something only for who has sent a form, with what `Pages.form`
 * gives them.
 */
export interface PageContext extends Omit<WebOptions, 'sessionAuth'> {
  sessionAuth: Omit<SessionAuth, 'transact'>
  pageQueue: PageQueue
  openPages: OpenPages
  /** Reads the commit of HEAD. */
  headLog: CommitLog
  commitLog: CommitLog
  breakages: Breakages
  refs: RefLists
  revisions: Revisions
  findUser: FindUser
}

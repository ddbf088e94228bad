import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Budget } from '../auth/budget.ts'
import type { Oidc } from '../auth/oidc.ts'
import { createGitQueue } from '../git/history/cached-reads.ts'
import { CommitLog } from '../git/history/log.ts'
import { RefLists } from '../git/history/refs.ts'
import { Revisions } from '../git/history/revision.ts'
import type { CommitLookup } from '../git/objects/commit-lookup.ts'
import { createUnsentLimit } from '../hooks/unsent.ts'
import { readForm } from '../http/body.ts'
import type { Store } from '../store/store.ts'
import { files } from './files.ts'
import { accountPages } from './pages/account/page.ts'
import { badge } from './pages/badge/page.ts'
import { checksPage } from './pages/checks/page.ts'
import { commitPages } from './pages/commit/page.ts'
import { docs } from './pages/docs/page.ts'
import { repositoriesPage } from './pages/repositories/page.ts'
import { repositoryPage } from './pages/repository/page.ts'
import { signIn } from './pages/sign-in/page.ts'
import { tokenPages } from './pages/tokens/page.ts'
import type { SendErrorPage } from './parts/error-page.ts'
import { createPageQueue } from './parts/page-queue.ts'
import { setSecurityHeaders } from './parts/security-headers.ts'
import type { Session, SessionAuth } from './session/session-auth.ts'

export interface WebOptions {
  store: Store
  lookup: CommitLookup
  budget: Budget
  sessionAuth: SessionAuth
  sendErrorPage: SendErrorPage
  /** The public origin; null for the origin of the request. */
  publicUrl: string | null
  /** Milliseconds for which a new token may live; null: for ever. */
  tokenMaxLifetime: number | null
  /** The OpenID Connect provider; null: there is none. */
  oidc: Oidc | null
  /** Whether people can sign in with passwords. */
  passwordSignIn: boolean
  /** Seconds after which a pending check is stalled. */
  stalledAfter: number
  /** How long a form may take to arrive, in milliseconds. */
  bodyTimeout: number
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set on pages before any other hook runs. */
    session: Session
    /** Set on pages that receive a form. */
    form: URLSearchParams
  }
}

/** Maximum bytes of a form, which has a few short fields. */
const FORM_LIMIT = 64 * 1024

/** Registers everything that people use in a browser. */
export async function web(app: FastifyInstance, options: WebOptions): Promise<void> {
  const { sessionAuth } = options
  const pageQueue = createPageQueue()
  const limitUnsent = createUnsentLimit()
  const gitQueue = createGitQueue()
  const pageOptions = {
    ...options,
    pageQueue,
    heads: new CommitLog(gitQueue, { count: 1 }),
    commitLog: new CommitLog(gitQueue),
    refs: new RefLists(gitQueue),
    revisions: new Revisions(gitQueue, options.lookup),
  }
  app.setErrorHandler(options.sendErrorPage)
  app.addHook('onRequest', (request, reply, done) => {
    setSecurityHeaders(request, reply)
    done()
  })
  await app.register(files)
  await app.register(badge, pageOptions)
  await app.register(async (pages) => {
    pages.addHook('onRoute', (route) => {
      route.config = { ...route.config, page: true }
    })
    pages.addHook('onRequest', async (request, reply) => {
      reply.header('cache-control', 'no-store').header('vary', 'Cookie')
      await pageQueue.start(request)
      request.session = await sessionAuth.identify(request, reply)
    })
    pages.addHook('onSend', async (request, reply, payload) => limitUnsent(request, reply, payload))
    // Runs before Fastify checks the content type: an unparsable one would become an internal error.
    pages.addHook('preParsing', async (request: FastifyRequest, reply: FastifyReply) => {
      if (request.method !== 'POST') return
      request.form = await readForm(request.raw, reply.raw, FORM_LIMIT, options.bodyTimeout)
      sessionAuth.checkForm(request, request.form)
    })
    await pages.register(signIn, pageOptions)
    const { oidc } = options
    if (oidc)
      await pages.register((await import('./pages/sign-in/oidc.ts')).oidcSignIn, { ...pageOptions, oidc })
    await pages.register(tokenPages, pageOptions)
    await pages.register(accountPages, pageOptions)
    await pages.register(docs)
    await pages.register(repositoriesPage, pageOptions)
    await pages.register(repositoryPage, pageOptions)
    await pages.register(commitPages, pageOptions)
    await pages.register(checksPage, pageOptions)
  })
}

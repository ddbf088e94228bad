import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { createGitQueue } from '../git/history/cached-reads.ts'
import { CommitLog } from '../git/history/log.ts'
import { RefLists } from '../git/history/ref-lists.ts'
import { Revisions } from '../git/history/revision.ts'
import { readForm } from '../http/body.ts'
import { createUnsentLimit } from '../http/unsent.ts'
import { setSecurityHeaders } from '../replies/security-headers.ts'
import { files } from './files.ts'
import { accessPage } from './pages/access/access-page.ts'
import { accountPages } from './pages/account/account-page.ts'
import { badgePage } from './pages/badge/badge-page.ts'
import { checksPage } from './pages/checks/checks-page.ts'
import { commitPage } from './pages/commit/commit-page.ts'
import { docsPage } from './pages/docs/docs-page.ts'
import { eventsPage } from './pages/events/events-page.ts'
import { newRepositoryPage } from './pages/new-repository/new-repository-page.ts'
import { repositoriesPage } from './pages/repositories/repositories-page.ts'
import { repositoryPage } from './pages/repository/repository-page.ts'
import { requiredChecksPage } from './pages/required-checks/required-checks-page.ts'
import { settingsPage } from './pages/settings/settings-page.ts'
import { signInPages } from './pages/sign-in/sign-in-page.ts'
import { tokenPages } from './pages/tokens/tokens-page.ts'
import { createUserFinder } from './parts/find-user.ts'
import type { PageContext, WebOptions } from './parts/page-context.ts'
import { createPageQueue } from './parts/page-queue.ts'

/** Maximum bytes of a form, which has a few short fields. */
const FORM_LIMIT = 64 * 1024

/** Registers everything that people use in a browser. */
export async function web(app: FastifyInstance, options: WebOptions): Promise<void> {
  const { sessionAuth } = options
  const pageQueue = createPageQueue(options.store.engine.remote)
  const limitUnsent = createUnsentLimit()
  const gitQueue = createGitQueue()
  const pageContext: PageContext = {
    ...options,
    pageQueue,
    heads: new CommitLog(gitQueue, { count: 1 }),
    commitLog: new CommitLog(gitQueue),
    refs: new RefLists(gitQueue),
    revisions: new Revisions(gitQueue, options.lookup),
    findUser: createUserFinder(options.store),
  }

  app.setErrorHandler(options.sendErrorPage)
  app.addHook('onRequest', (request, reply, done) => {
    setSecurityHeaders(request, reply)
    done()
  })

  await app.register(files)
  await app.register(badgePage, pageContext)
  await app.register(async (pages) => {
    pages.decorateRequest('form', null)
    pages.addHook('onRoute', (route) => {
      route.config = { ...route.config, page: true }
    })

    pages.addHook('onRequest', async (request, reply) => {
      reply.header('cache-control', 'no-store').header('vary', 'Cookie')
      await pageQueue.start(request)
      request.session = await sessionAuth.identify(request, reply)
    })
    pages.addHook('onSend', async (request, reply, payload) => limitUnsent(request, reply.raw, payload))
    // Runs before Fastify checks the content type: an unparsable one would become an internal
    // error.
    pages.addHook('preParsing', async (request: FastifyRequest, reply: FastifyReply) => {
      if (request.method !== 'POST') return
      const form = await readForm(request.raw, reply.raw, FORM_LIMIT, options.bodyTimeout)
      sessionAuth.checkForm(request, form)
      request.form = form
    })

    await pages.register(signInPages, pageContext)
    const { oidc } = options
    if (oidc)
      await pages.register((await import('./pages/sign-in/oidc.ts')).oidcPages, { ...pageContext, oidc })
    await pages.register(tokenPages, pageContext)
    await pages.register(accountPages, pageContext)
    await pages.register(docsPage)
    if (options.repositoryCreation) await pages.register(newRepositoryPage, pageContext)
    await pages.register(repositoriesPage, pageContext)
    await pages.register(repositoryPage, pageContext)
    await pages.register(commitPage, pageContext)
    await pages.register(checksPage, pageContext)
    await pages.register(settingsPage, pageContext)
    await pages.register(accessPage, pageContext)
    await pages.register(requiredChecksPage, pageContext)
    await pages.register(eventsPage, pageContext)
  })
}

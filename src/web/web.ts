import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Breakages } from '../branches/breakages.ts'
import { createGitQueue } from '../git/history/cached-reads.ts'
import { CommitLog } from '../git/history/log.ts'
import { RefLists } from '../git/history/ref-lists.ts'
import { Revisions } from '../git/history/revision.ts'
import { readForm } from '../http/body.ts'
import { createUnsentLimit } from '../http/unsent.ts'
import { setSecurityHeaders } from '../replies/security-headers.ts'
import { serveFiles } from './files.ts'
import { createUserFinder } from './forms/find-user.ts'
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
import { OpenPages } from './routing/open-pages.ts'
import type { PageContext, WebOptions } from './routing/page-context.ts'
import { createPageQueue } from './routing/page-queue.ts'
import { Pages } from './routing/pages.ts'

/** Maximum bytes of a form, which has a few short fields. */
const FORM_LIMIT = 64 * 1024

/** Registers everything that people use in a browser. */
export async function web(app: FastifyInstance, options: WebOptions): Promise<void> {
  const { sessionAuth } = options
  const pageQueue = createPageQueue(options.store.remote)
  const limitUnsent = createUnsentLimit()
  const gitQueue = createGitQueue()
  const disk = options.store.remote ? 'shared' : 'own'
  const commitLog = new CommitLog(gitQueue, {}, disk)
  const refs = new RefLists(gitQueue, {}, disk)
  const openPages = new OpenPages(options.store, refs)
  const pageContext: PageContext = {
    ...options,
    pageQueue,
    openPages,
    headLog: new CommitLog(gitQueue, { count: 1 }, disk),
    commitLog,
    breakages: new Breakages(gitQueue, commitLog, options.store),
    refs,
    revisions: new Revisions(gitQueue, options.lookup),
    findUser: createUserFinder(options.store),
  }

  app.setErrorHandler(options.sendErrorPage)
  app.addHook('onRequest', (request, reply, done) => {
    setSecurityHeaders(request, reply)
    done()
  })

  /** Registers pages, each with its own hooks and error handler. */
  const register = (app: FastifyInstance, pages: (pages: Pages, context: PageContext) => Promise<void>) => {
    const plugin = async (app: FastifyInstance) => pages(new Pages(app, sessionAuth), pageContext)
    // Fastify would look for the name among all loaded modules.
    return app.register(Object.assign(plugin, { [Symbol.for('fastify.display-name')]: pages.name }))
  }

  await serveFiles(app)
  await register(app, badgePage)
  await app.register(async (pages) => {
    pages.decorateRequest('form', null)

    pages.addHook('onRequest', async (request, reply) => {
      reply.header('cache-control', 'no-store').header('vary', 'Cookie')
      await pageQueue.start(request)
      request.session = await sessionAuth.identify(request, reply)
      const { remembered } = request.routeOptions.config
      if (!remembered || request.headers['x-live'] === undefined) return
      const etag = await openPages.unchanged(request)
      if (etag !== null) return reply.header('etag', etag).code(304).send()
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

    await register(pages, signInPages)
    const { oidc } = options
    if (oidc) {
      const { oidcPages } = await import('./pages/sign-in/oidc.ts')
      await register(pages, (pages, context) => oidcPages(pages, { ...context, oidc }))
    }
    await register(pages, tokenPages)
    await register(pages, accountPages)
    await register(pages, docsPage)
    if (options.repositoryCreation) await register(pages, newRepositoryPage)
    await register(pages, repositoriesPage)
    await register(pages, repositoryPage)
    await register(pages, commitPage)
    await register(pages, checksPage)
    await register(pages, settingsPage)
    await register(pages, accessPage)
    await register(pages, requiredChecksPage)
    await register(pages, eventsPage)
  })
}

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Budget } from '../auth/budget.ts'
import type { CommitLookup } from '../git/commit-lookup.ts'
import { CommitLog } from '../git/log.ts'
import { readForm } from '../http/body.ts'
import type { Store } from '../store/store.ts'
import { commitPages } from './commit-pages.ts'
import { docs } from './docs.ts'
import type { SendErrorPage } from './error-page.ts'
import { files } from './files.ts'
import { setSecurityHeaders } from './security-headers.ts'
import type { SessionAuth, Visitor } from './session-auth.ts'
import { signIn } from './sign-in.ts'
import { tokenPages } from './token-pages.ts'
import { createTurns } from './turns.ts'

export interface WebOptions {
  store: Store
  lookup: CommitLookup
  budget: Budget
  visit: SessionAuth
  sendErrorPage: SendErrorPage
  /** The origin that people use; null: that of the request. */
  publicUrl: string | null
  /** Milliseconds for a form to arrive. */
  bodyTimeout: number
}

declare module 'fastify' {
  interface FastifyRequest {
    /** On pages, before anything else looks at the request. */
    visitor: Visitor
    /** On pages that take a form. */
    form: URLSearchParams
  }
}

/** Forms hold a few short fields. */
const FORM_LIMIT = 64 * 1024

/** Everything that people look at in a browser. */
export async function web(app: FastifyInstance, options: WebOptions): Promise<void> {
  const { visit } = options
  const turns = createTurns()
  const pageOptions = { ...options, turns, commitLog: new CommitLog() }
  app.setErrorHandler(options.sendErrorPage)
  app.addHook('onRequest', (request, reply, done) => {
    setSecurityHeaders(request, reply)
    done()
  })
  await app.register(files)
  await app.register(async (pages) => {
    pages.addHook('onRoute', (route) => {
      route.config = { ...route.config, page: true }
    })
    pages.addHook('onRequest', async (request, reply) => {
      reply.header('cache-control', 'no-store').header('vary', 'Cookie')
      await turns.begin(request)
      request.visitor = await visit.identify(request, reply)
    })
    // Before Fastify looks at the content type, and takes one that it cannot read for a mistake of ours.
    pages.addHook('preParsing', async (request: FastifyRequest, reply: FastifyReply) => {
      if (request.method !== 'POST') return
      request.form = await readForm(request.raw, reply.raw, FORM_LIMIT, options.bodyTimeout)
      visit.checkForm(request, request.form)
    })
    await pages.register(signIn, pageOptions)
    await pages.register(tokenPages, pageOptions)
    await pages.register(docs)
    await pages.register(commitPages, pageOptions)
  })
}

import cookie from '@fastify/cookie'
import helmet from '@fastify/helmet'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Budget } from '../auth/budget.ts'
import type { CommitLookup } from '../git/commit-lookup.ts'
import { readForm } from '../http/body.ts'
import type { Store } from '../store/store.ts'
import { assets } from './assets.ts'
import { commitPages } from './commit-pages.ts'
import { contractFiles, docs } from './docs.ts'
import { sendErrorPage } from './error-page.ts'
import { signIn } from './sign-in.ts'
import { tokenPages } from './token-pages.ts'
import { type Visitor, visitors } from './visitor.ts'

export interface WebOptions {
  store: Store
  lookup: CommitLookup
  budget: Budget
  /** The origin that people use; null: that of the request. */
  publicUrl: string | null
  /** Milliseconds for a form to arrive. */
  bodyTimeout: number
}

declare module 'fastify' {
  interface FastifyRequest {
    /** On pages. */
    visitor: Visitor
    /** On pages that take a form. */
    form: URLSearchParams
  }
}

/** Forms hold a few short fields. */
const FORM_LIMIT = 64 * 1024

/** Everything that people look at in a browser. */
export async function web(app: FastifyInstance, options: WebOptions): Promise<void> {
  const visit = visitors(options.store.sessions, options.publicUrl)
  await app.register(cookie)
  await app.register(helmet, {
    contentSecurityPolicy: { useDefaults: false, directives: CSP },
    // Whether there is https, and for how long, is for the proxy in front to say.
    strictTransportSecurity: false,
    // Browsers ignore these two on plain http, and complain.
    crossOriginOpenerPolicy: false,
    originAgentCluster: false,
    referrerPolicy: { policy: 'same-origin' },
  })
  app.setErrorHandler((error, request, reply) => sendErrorPage(error, request, reply))
  await app.register(assets)
  await app.register(contractFiles)
  await app.register(async (pages) => {
    pages.addHook('onRequest', async (request, reply) => {
      reply.header('cache-control', 'no-store').header('vary', 'Cookie')
      request.visitor = await visit.identify(request, reply)
    })
    pages.addHook('preValidation', async (request: FastifyRequest, reply: FastifyReply) => {
      if (request.method !== 'POST') return
      request.form = await readForm(request.raw, reply.raw, FORM_LIMIT, options.bodyTimeout)
      visit.checkForm(request, request.form)
    })
    await pages.register(signIn, { ...options, visit })
    await pages.register(tokenPages, options)
    await pages.register(docs)
    await pages.register(commitPages, options)
  })
}

/** Only what comes from here, and no script or style within a page. */
const CSP = {
  defaultSrc: ["'none'"],
  scriptSrc: ["'self'"],
  styleSrc: ["'self'"],
  imgSrc: ["'self'", 'data:'],
  connectSrc: ["'self'"],
  baseUri: ["'none'"],
  formAction: ["'self'"],
  frameAncestors: ["'none'"],
}

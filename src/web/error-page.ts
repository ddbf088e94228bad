import { STATUS_CODES } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { html } from 'hono/html'
import { ServiceError, statusOf } from '../errors.ts'
import { applyErrorHeaders, asServiceError, sendError } from '../hooks/error-replies.ts'
import { WrongMethod } from '../hooks/unknown-paths.ts'
import { page } from './layout.ts'
import { setSecurityHeaders } from './security-headers.ts'
import type { SessionAuth, Visitor } from './session-auth.ts'

export type SendErrorPage = (
  fault: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
) => Promise<FastifyReply>

/**
 * Answers faults of pages, and of paths that nobody answers: with a page that has the status and the message that the
 * API would answer, or with `{"error": message}` where a path is unknown and the caller does not ask for HTML.
 */
export function createErrorPageSender(visit: SessionAuth): SendErrorPage {
  return async (fault, request, reply) => {
    if (!wantsPage(fault, request)) return sendError(reply, fault, '')
    // The client is gone: nobody gets this answer, and nothing is wrong.
    const isGone = fault !== undefined && fault === request.signal.reason
    const error = isGone ? new ServiceError('malformed_request') : asServiceError(fault)
    applyErrorHeaders(reply, error)
    setSecurityHeaders(request, reply)
    const visitor = request.visitor ?? (await visit.identify(request, reply).catch(() => NOBODY))
    const status = statusOf(error.code)
    const title = STATUS_CODES[status] ?? 'Error'
    const content = html`<div class="notice">
  <p class="status-code" aria-hidden="true">${status}</p>
  <h1>${title}</h1>
  <p>${error.message}</p>
  <p><a href="/">All repositories</a></p>
</div>`
    return reply.type('text/html; charset=utf-8').send(await page({ title, visitor }, content))
  }
}

const NOBODY: Visitor = { user: null, csrfToken: () => '' }

function wantsPage(fault: unknown, request: FastifyRequest): boolean {
  if (fault instanceof WrongMethod) return fault.onPage
  const unknown = request.is404 || asServiceError(fault).code === 'path_unknown'
  return (
    !unknown || (/\btext\/html\b/i.test(request.headers.accept ?? '') && !request.url.startsWith('/api/'))
  )
}

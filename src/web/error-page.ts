import { STATUS_CODES } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { html } from 'hono/html'
import { statusOf } from '../errors.ts'
import { asServiceError, describeFault } from '../http/replies.ts'
import { page } from './layout.ts'
import type { Visitor } from './visitor.ts'

const NOBODY: Visitor = { user: null, csrfToken: () => '' }

/** Answers with a page what the API would answer with `{"error": message}`: the same status, the same message. */
export async function sendErrorPage(
  fault: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const error = asServiceError(fault)
  describeFault(reply, error)
  const status = statusOf(error.code)
  const content = html`<div class="notice">
  <p class="status-code" aria-hidden="true">${status}</p>
  <h1>${STATUS_CODES[status]}</h1>
  <p>${error.message}</p>
  <p><a href="/">All repositories</a></p>
</div>`
  const text = await page(
    { title: STATUS_CODES[status] ?? 'Error', visitor: request.visitor ?? NOBODY },
    content,
  )
  return reply.type('text/html; charset=utf-8').send(text)
}

/** Whether an unknown path is better answered with a page. */
export function wantsPage(request: FastifyRequest): boolean {
  return /\btext\/html\b/i.test(request.headers.accept ?? '') && !request.url.startsWith('/api/')
}

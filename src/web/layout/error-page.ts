import { STATUS_CODES } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { RenamedError } from '../../auth/access-policy.ts'
import type { Session } from '../../auth/session.ts'
import { Refusal } from '../../domain/refusal.ts'
import { ServiceError, statusOf } from '../../errors.ts'
import { applyErrorHeaders, asServiceError, sendError } from '../../replies/error-replies.ts'
import { setSecurityHeaders } from '../../replies/security-headers.ts'
import { WrongMethod } from '../../replies/unknown-paths.ts'
import type { ReadableRepository } from '../../store/access/readable-repositories.ts'
import { insteadOf, Unavailable } from '../../util/expected-errors.ts'
import { type SessionAuth, signInPath } from '../session/session-auth.ts'
import { type Html, html } from '../text/html.ts'
import { pathOf } from '../text/repository-paths.ts'
import { sentence, shownLines } from '../text/text.ts'
import { sendPage } from './layout.ts'

export type SendErrorPage = ReturnType<typeof createErrorPageSender>

/**
 * Creates the error handler of pages and unknown paths. It answers with an error page that has the
 * same status and message as the API, or with `{"error": message}` when the path is unknown and the
 * client does not accept HTML.
 */
export function createErrorPageSender(sessionAuth: SessionAuth) {
  return async (cause: unknown, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    if (!wantsPage(cause, request)) return sendError(reply, cause, '')
    const error = asServiceError(
      cause instanceof Refusal ? new ServiceError('field_invalid', sentence(cause.message)) : cause,
    )
    applyErrorHeaders(reply, error)
    setSecurityHeaders(request, reply)
    const session =
      request.session ?? (await sessionAuth.identify(request, reply).catch(insteadOf(Unavailable, ANONYMOUS)))
    const status = statusOf(error.code)
    const title = STATUS_CODES[status] ?? 'Error'
    const content = html`<div class="notice">
  <p class="status-code" aria-hidden="true">${status}</p>
  <h1>${title}</h1>
  <p>${error.message}</p>
  <p>${error instanceof RenamedError ? repositoryLink(error.repository) : ''}${error.code === 'credential_missing' ? html`<a href="${signInPath(request.url)}">Sign in</a> · ` : ''}<a href="/">All repositories</a></p>
</div>${typedView(request.form)}`
    return sendPage(reply, { title }, content, session)
  }
}

function repositoryLink(repository: ReadableRepository): Html {
  return html`<a href="${pathOf(repository)}">${repository.owner}/${repository.name}</a> · `
}

/** The fields of forms that people type, none of them secret, by their labels. */
const TYPED = [
  ['user', 'User'],
  ['name', 'Name'],
  ['branch', 'Branches or tags'],
  ['context', 'Checks'],
  ['required', 'Other required checks'],
  ['bypass', 'Users who may push without them'],
  ['contexts', 'Contexts'],
  ['pattern', 'Contexts'],
  ['users', 'Users who may report them'],
] as const

/** Renders what was typed in a form that came to nothing, so that it need not be typed again. */
function typedView(form: URLSearchParams | null): Html | '' {
  const typed = TYPED.map(([name, label]) => ({ label, text: form?.getAll(name).join('\n') ?? '' }))
  const shown = typed.filter(({ text }) => text !== '')
  if (shown.length === 0) return ''
  return html`<h2>What you had entered</h2>
<dl class="rules">${shown.map(({ label, text }) => html`<div><dt>${label}</dt><dd>${shownLines(text)}</dd></div>`)}</dl>`
}

const ANONYMOUS: Session = { user: null, path: '/', csrfToken: () => '' }

function wantsPage(error: unknown, request: FastifyRequest): boolean {
  if (error instanceof WrongMethod) return error.onPage
  const unknown = request.is404 || asServiceError(error).code === 'path_unknown'
  return (
    !unknown || (/\btext\/html\b/i.test(request.headers.accept ?? '') && !request.url.startsWith('/api/'))
  )
}

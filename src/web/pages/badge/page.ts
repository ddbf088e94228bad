import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { isReserved } from '../../../domain/names.ts'
import { COMBINED, type CombinedState, type StatusState } from '../../../domain/states.ts'
import { ServiceError } from '../../../errors.ts'
import { applyErrorHeaders, asServiceError, sendError } from '../../../hooks/error-replies.ts'
import { etagOf, matchesEtag } from '../../../http/etag.ts'
import { truncate } from '../../../util/truncate.ts'
import { stateOfSummary } from '../../parts/commit-row.ts'
import { gitClient, type RepositoryRoute } from '../../parts/find-repository.ts'
import { html } from '../../parts/html.ts'
import type { PageContext } from '../../parts/page-context.ts'
import { firstOf, type Query } from '../../parts/query.ts'
import { visibleText } from '../../parts/text.ts'

interface Route extends RepositoryRoute {
  Querystring: Query<'ref' | 'context'>
}

/** Messages that are no state. */
type Note = 'no status' | 'unknown' | 'unavailable'
type Message = StatusState | Note

/** Seconds for which caches may show a badge. */
const MAX_AGE = 60
/** What is on the left of a badge that is not about one context. */
const LABEL = 'checks'
/** Maximum number of code points of a label. */
const LABEL_LENGTH = 40
const POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"

/** Colors on which white text is readable, on light and dark pages. */
const COLORS: Record<CombinedState | Note, string> = {
  success: '#1a7540',
  pending: '#8a5a00',
  failure: '#b3261e',
  'no status': '#59636b',
  unknown: '#59636b',
  unavailable: '#59636b',
}

/**
 * Registers `/{owner}/{repo}/badge.svg`: the state of a branch or tag (`ref`; by default HEAD), or of one context on it.
 *
 * Caches share it between users, so it shows only what anonymous users may see, and neither cookies nor tokens are
 * read. What they may not see and what does not exist get the same badge.
 */
export async function badge(app: FastifyInstance, { store, refs }: PageContext): Promise<void> {
  app.setErrorHandler((cause, _request, reply) => {
    const error = asServiceError(cause)
    if (error.code !== 'unavailable') return sendError(reply, error, '')
    applyErrorHeaders(reply, error)
    return send(reply, LABEL, 'unavailable')
  })

  app.get<Route>('/:owner/:repo/badge.svg', { config: { page: true } }, async (request, reply) => {
    const { owner, repo } = request.params
    if (owner === '' || repo === '' || isReserved(owner)) throw new ServiceError('path_unknown')
    const context = firstOf(request.query.context)
    const message = await find(request, context)
    reply.header('cache-control', `public, max-age=${MAX_AGE}`)
    if (message === null) return send(reply.code(404), LABEL, 'unknown')
    const text = badgeView(context || LABEL, message).toString()
    const etag = etagOf(text)
    reply.header('etag', etag)
    if (matchesEtag(request.headers['if-none-match'], etag)) return setHeaders(reply).code(304).send()
    return setHeaders(reply).send(text)
  })

  /** Returns the state to show; null if anonymous users may not see it or it does not exist. */
  async function find(request: FastifyRequest<Route>, context: string): Promise<Message | null> {
    const { owner, repo } = request.params
    const repository = await store.listing.find(null, owner, repo)
    if (!repository) return null
    const client = gitClient(request)
    const list = await refs.list(repository, client)
    const asked = firstOf(request.query.ref)
    const sha = asked ? (await refs.find(repository, list, asked, client))?.sha : list.head
    if (!sha) return null
    if (context) return (await store.summaries.findState(repository.id, sha, context)) ?? null
    const [summary] = await store.summaries.list([{ repositoryId: repository.id, sha }])
    return (summary && stateOfSummary(summary)) ?? 'no status'
  }
}

async function send(reply: FastifyReply, label: string, message: Message): Promise<FastifyReply> {
  return setHeaders(reply).send(badgeView(label, message).toString())
}

function setHeaders(reply: FastifyReply): FastifyReply {
  return reply
    .type('image/svg+xml; charset=utf-8')
    .header('content-security-policy', POLICY)
    .header('cross-origin-resource-policy', 'cross-origin')
}

function badgeView(label: string, message: Message) {
  const full = validXml(label)
  const shown = truncate(full, LABEL_LENGTH)
  const [left, right] = [widthOf(shown), widthOf(message)]
  const text = (content: string, x: number, width: number) =>
    html`<text x="${x}" y="14" textLength="${width - 12}" lengthAdjust="spacingAndGlyphs" direction="ltr" unicode-bidi="isolate">${content}</text>`
  return html`<svg xmlns="http://www.w3.org/2000/svg" width="${left + right}" height="20" viewBox="0 0 ${left + right} 20" role="img" aria-label="${full}: ${message}">
<title>${full}: ${message}</title>
<clipPath id="r"><rect width="${left + right}" height="20" rx="4"/></clipPath>
<g clip-path="url(#r)"><rect width="${left}" height="20" fill="#3b4345"/><rect x="${left}" width="${right}" height="20" fill="${COLORS[isState(message) ? COMBINED[message] : message]}"/></g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">${text(shown, 6, left)}${text(message, left + 6, right)}</g>
</svg>
`
}

function isState(message: Message): message is StatusState {
  return message in COMBINED
}

/** Returns the text with visible symbols for control characters, and without the characters that XML excludes. */
function validXml(text: string): string {
  return visibleText(text).replace(/[\ufffe\uffff]/g, '\ufffd')
}

/** Returns about the width of a text with its margins. The text is then fitted to it, whatever the font. */
function widthOf(text: string): number {
  let width = 12
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0
    width += code > 0x1100 ? 11 : /[ijltfr.,:;|!'/ ]/.test(character) ? 4.5 : 7
  }
  return Math.round(width)
}

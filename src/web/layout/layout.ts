import type { FastifyReply } from 'fastify'
import type { Session } from '../../auth/session.ts'
import { etagOf, matchesEtag } from '../../http/etag.ts'
import { sessionOf, signInPath } from '../session/session-auth.ts'
import { type Html, html } from '../text/html.ts'
import { shownText } from '../text/text.ts'

/** Options of the layout that all pages share. */
export interface PageOptions {
  title: string
  /** Title of the browser's tab. Default: the title and the name of the site. */
  tab?: string
  /** Path of the tab's icon. */
  icon?: string
  /** Replaces the stylesheet of the head, which the content then links. */
  style?: Html
  /** Additional elements of the head. */
  head?: Html
  /**
   * Keeps the page current by script, unless it answers a form: its state in words, and whether that
   * is about to change.
   */
  live?: { summary: string; pending: boolean }
  /** Called with the ETag of a page that is kept current. */
  keep?: ((etag: string) => void) | undefined
  /** Comes after the content, and is not kept current: forms in it keep what was typed. */
  rest?: Html | undefined
  /** Whether the page uses the full width of the window and renders its own `main` element. */
  wide?: boolean
}

/** The script that keeps a page current, and what a page without it says. */
const LIVE = html`<script src="/assets/live.js" defer></script>`
const asOf = () => html`<noscript><p class="faint">As of ${time(new Date().toISOString())}</p></noscript>`

/** Sends a page, or only what is new of it to the script of the page. */
export function sendPage(
  reply: FastifyReply,
  options: PageOptions,
  content: Html,
  session = sessionOf(reply.request),
): FastifyReply {
  const { live, rest = '', tab, icon } = options
  const { headers } = reply.request
  // An update would remove the message about the form.
  const isAnswerToForm = reply.request.method === 'POST'
  if (!live || isAnswerToForm) return sendHtml(reply, renderPage(options, session, html`${content}${rest}`))
  const region = (head: Html | '') =>
    html`<div id="live"${head} data-summary="${live.summary}"${live.pending ? ' data-pending' : ''}>${content}</div>`
  if (headers['x-live'] === undefined)
    return sendHtml(
      reply,
      renderPage({ ...options, head: LIVE }, session, html`${region('')}${asOf()}${rest}`),
    )
  const body = region(html` data-tab="${tab ?? titleOf(options)}" data-icon="${icon ?? ICON}"`).toBuffer()
  // Ages change all the time, and the script computes them.
  const etag = etagOf(body.toString('latin1').replace(/ data-age>[^<]*/g, ''))
  reply.header('etag', etag)
  options.keep?.(etag)
  return matchesEtag(headers['if-none-match'], etag) ? reply.code(304).send() : reply.type(HTML).send(body)
}

const HTML = 'text/html; charset=utf-8'
const ICON = '/assets/icon.svg'

function titleOf({ title }: PageOptions): string {
  return `${title} · Commit Status`
}

/** Sends HTML as bytes, so that it is in memory only once while it is sent. */
function sendHtml(reply: FastifyReply, content: Html): FastifyReply {
  return reply.type(HTML).send(content.toBuffer())
}

/** Renders a page. Templates escape all values except other templates. */
function renderPage(options: PageOptions, session: Session, content: Html): Html {
  const { tab, icon = ICON, style, head, wide } = options
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${tab ?? titleOf(options)}</title>
${style ? html`<style>${style}</style>` : html`<link rel="stylesheet" href="/assets/style.css">`}
<link rel="icon" href="${icon}">
<script type="module" src="/assets/page.js"></script>
${head ?? ''}
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header class="site">
<nav aria-label="Site">
<a class="brand" href="/"><img src="/assets/icon.svg" alt="" width="24" height="24">Commit Status</a>
<a href="/docs">API docs</a>
${session.user ? userMenu(session) : html`<a class="end" href="${signInLink(session)}">Sign in</a>`}
</nav>
</header>
${session.message ? html`<p class="message" role="status">${shownText(session.message)}</p>\n` : ''}${wide ? html`<div id="content">${content}</div>` : html`<main id="content">${content}</main>`}
</body>
</html>
`
}

/** Returns the path of the sign-in page that returns to the user's page. */
function signInLink({ path }: Session): string {
  if (path.startsWith('/login?')) return path
  // The query of the other paths is not for the history and the header Referer.
  if (path === '/' || /^\/login(?:\/|$)/.test(path)) return '/login'
  return signInPath(path)
}

/** Renders what belongs to the user. It opens without a script. */
function userMenu(session: Session): Html {
  return html`<details class="end menu"><summary>${session.user?.name}</summary>
<div><a href="/settings/tokens">Tokens</a>
<a href="/settings/tokens#name">New token</a>
<a href="/settings/account">Account</a>
<form method="post" action="/logout">${csrfField(session)}<button class="quiet">Sign out</button></form></div></details>`
}

/** Renders the hidden field that every form needs. */
export function csrfField(session: Session): Html {
  return html`<input type="hidden" name="csrf" value="${session.csrfToken()}">`
}

/** Renders a time for people and, as an attribute, for machines. @param iso ISO 8601, UTC */
export function time(iso: string): Html {
  return html`<time datetime="${iso}"><span>${iso.slice(0, 10)}</span> <span>${iso.slice(11, 16)} UTC</span></time>`
}

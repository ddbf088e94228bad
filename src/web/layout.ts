import { html } from 'hono/html'
import type { Visitor } from './session-auth.ts'

/** Escaped HTML: what `html` gives for a template without promises. */
export type Html = ReturnType<typeof html>

/** What every page has around its own part. */
export interface PageOptions {
  title: string
  visitor: Visitor
  /** Elements for the head that only this page needs. */
  head?: Html
  /** Fills the width of the window, and brings a main part of its own. */
  wide?: boolean
}

/** A whole page. Whatever is put into a template is escaped, unless it is a template itself. */
export async function page(options: PageOptions, content: Html): Promise<string> {
  let text = ''
  for await (const piece of pieces(options, [content])) text += piece
  return text
}

/** A whole page, piece by piece. */
export async function* pieces(
  { title, visitor, head, wide }: PageOptions,
  content: Iterable<Html> | AsyncIterable<Html>,
): AsyncGenerator<Html> {
  yield html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · Commit Status</title>
<link rel="stylesheet" href="/assets/style.css">
<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
<script src="/assets/page.js" defer></script>
${head ?? ''}
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header class="site">
  <nav aria-label="Site">
    <a class="brand" href="/"><img src="/assets/icon.svg" alt="" width="24" height="24">Commit Status</a>
    <a href="/docs">API docs</a>
    ${visitor.user ? signedIn(visitor) : html`<a class="end" href="/login">Sign in</a>`}
  </nav>
</header>
${wide ? html`<div id="content" class="wide">` : html`<main id="content">`}`
  yield* content
  yield html`${wide ? html`</div>` : html`</main>`}
</body>
</html>
`
}

function signedIn(visitor: Visitor): Html {
  return html`<a href="/settings/tokens">Tokens</a>
    <form class="end" method="post" action="/logout">
      ${csrfField(visitor)}
      <span class="who">${visitor.user?.name}</span>
      <button class="quiet" type="submit">Sign out</button>
    </form>`
}

/** The hidden field that every form carries. */
export function csrfField(visitor: Visitor): Html {
  return html`<input type="hidden" name="csrf" value="${visitor.csrfToken()}">`
}

/** A moment as people read it; the machine-readable one stays beside it. @param iso ISO 8601, UTC */
export function time(iso: string): Html {
  return html`<time datetime="${iso}">${iso.slice(0, 10)} ${iso.slice(11, 16)} UTC</time>`
}

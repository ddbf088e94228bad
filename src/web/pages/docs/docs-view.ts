import { swaggerUiPath } from '../../files.ts'
import { html } from '../../text/html.ts'
import { operationsView } from './operations-view.ts'

/**
 * The style of what comes before the stylesheets: on a slow network they take longer than a reader
 * waits.
 */
export const docsStyle = html`:root{color-scheme:light dark}
body{margin:0;background:light-dark(#fbfbf9,#131715);color:light-dark(#1c2321,#e7ece9);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
.skip{position:absolute;left:-999rem}
.site nav{display:flex;align-items:center;max-width:74rem;margin:0 auto;padding:.6rem 1.25rem;gap:.4rem 1.4rem}
.clients{max-width:74rem;margin:.75rem auto 0;padding:0 1.25rem}
a{color:light-dark(#1a6149,#7fd1ae)}`

export const docsHead = html`<script src="/assets/docs.js" defer></script>`

export const docsView = html`<nav class="clients" aria-label="Clients"><a href="/docs/reference#samples">Samples in curl, TypeScript and Python</a>,
<a href="/docs/reference#versions">versions</a>, <a href="/docs/reference#errors">errors by status</a>,
<a href="/assets/changelog.md">changelog</a>. In a CI job: <a href="/assets/commit-status.sh">shell client</a>,
<a href="/assets/commit-status-client.tgz">Node.js client</a> (<a href="/docs/client">its document</a>) with <a href="/docs/client#waiting"><code>wait</code></a>,
<a href="/docs/client#a-worker-a-push-starts-ci"><code>work</code></a>, <a href="/docs/client#landing"><code>land</code></a> and
<a href="/docs/client#required-checks"><code>gate</code></a>, and
<a href="/docs/recipes">recipes for CI systems</a>. For coding agents: <a href="/assets/SKILL.md"><code>SKILL.md</code></a>.</nav>
<link rel="stylesheet" href="/assets/style.css">
<link rel="stylesheet" href="/assets/docs.css">
<main id="reference">${operationsView}</main>
<div id="docs" data-style="${swaggerUiPath('swagger-ui.css')}" data-script="${swaggerUiPath('swagger-ui-bundle.js')}"><noscript><p class="empty">To try the API
here requires JavaScript. The contract is also available at <a href="/openapi.yaml">/openapi.yaml</a>.</p></noscript></div>`

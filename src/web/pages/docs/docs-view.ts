import { swaggerUiPath } from '../../files.ts'
import { html } from '../../parts/html.ts'

export const docsHead = html`<link rel="stylesheet" href="${swaggerUiPath('swagger-ui.css')}">
<link rel="stylesheet" href="/assets/docs.css">
<script src="${swaggerUiPath('swagger-ui-bundle.js')}" defer></script>
<script src="/assets/docs.js" defer></script>`

export const docsView = html`<nav class="clients" aria-label="Clients"><a href="/docs/reference#samples">Samples in curl, TypeScript and Python</a>,
<a href="/docs/reference#versions">versions</a>, <a href="/docs/reference#errors">errors by status</a>,
<a href="/assets/changelog.md">changelog</a>. In a CI job: <a href="/assets/commit-status.sh">shell client</a>,
<a href="/assets/commit-status-client.tgz">Node.js client</a> with <a href="/assets/client.md#:~:text=Waiting"><code>wait</code></a> and
<a href="/assets/client.md#:~:text=Required%20checks"><code>gate</code></a>, and
<a href="/assets/recipes.md">recipes for CI systems</a>. For coding agents: <a href="/assets/SKILL.md"><code>SKILL.md</code></a>.</nav><div id="docs"><noscript><p class="empty">The API docs require JavaScript. The contract
is also available at <a href="/openapi.yaml">/openapi.yaml</a>.</p></noscript></div>`

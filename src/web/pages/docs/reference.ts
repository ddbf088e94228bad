import { STATUS_CODES } from 'node:http'
import { errorsByStatus } from '../../../errors.ts'
import { clientDigest } from '../../files.ts'
import { html } from '../../parts/html.ts'
import { contractVersion, samples } from './samples.ts'

/** The names of the contract where Node.js has those of earlier standards. */
const NAMES: Record<number, string> = { 413: 'Content Too Large', 422: 'Unprocessable Content' }

const digest = clientDigest()

/** Samples, versions and errors: what readers of the contract ask for, made from it. */
export const referenceView = html`<h1>Samples, versions and errors</h1>
<p>How the <a href="/docs">API</a> is called, how it changes, and what its errors say.</p>
<h2 id="samples">Code samples</h2>
<p><code>BASE_URL</code> is the address of this server, <code>TOKEN</code> a <a href="/settings/tokens">personal access token</a>,
and <code>SHA</code> the full id of a commit. The Python needs only its standard library.</p>
<p id="client">The <a href="/assets/client.md">TypeScript client</a> comes from this server alone; no registry has it:
<code>npm install --no-save $BASE_URL/assets/commit-status-client.tgz</code>. ${digest ? html`The SHA-256 of this file is <code>${digest}</code>.` : ''}</p>
${samples.map(
  ({ operationId, summary, code }) => html`<h3 id="${operationId}">${summary}</h3>
${Object.entries(code).map(
  ([language, text]) => html`<h4>${language}</h4>
<pre tabindex="0"><code data-language="${language}">${text}</code></pre>
`,
)}`,
)}
<h2 id="versions">Versions and deprecations</h2>
<p>This is version ${contractVersion} of the contract. Within a major version requests that work keep working, and responses may
gain fields. What is deprecated stays for a year at least. The <a href="/assets/changelog.md">changelog</a> says what changed.</p>
<ul>
${samples.flatMap(({ operationId, deprecated }) =>
  deprecated.map(
    ({
      name,
      description,
    }) => html`<li><code>${name}</code> of <code>${operationId}</code>: ${description}</li>
`,
  ),
)}</ul>
<h2 id="errors">Errors by status</h2>
<p>These are the messages of the API, of git over HTTP and of the pages. Some name the field or the value as well.</p>
${errorsByStatus().map(
  ([status, messages]) => html`<h3 id="${status}">${status} ${NAMES[status] ?? STATUS_CODES[status]}</h3>
<ul>
${messages.map((message) => html`<li>${message}</li>\n`)}</ul>
`,
)}`

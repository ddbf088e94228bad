import { type Html, html } from '../../text/html.ts'
import { contractVersion, samples } from './samples.ts'

/** The operations of the contract in brief: without a script, and until the console has been loaded. */
export const operationsView = html`<h1>Commit Status JSON API ${contractVersion}</h1>
<p>Below, each operation can be tried once the console has been loaded. Samples, errors and limits: <a href="/docs/reference">reference</a>.</p>
<ul>${samples.map(
  ({ operationId, summary, method, path }) =>
    html`<li><a href="#operation-${operationId}">${summary}</a>: <code>${method} ${path}</code></li>\n`,
)}</ul>
${samples.map(
  ({ operationId, summary, description, method, path, parameters, fields, replies }) =>
    html`<h2 id="operation-${operationId}">${summary}</h2>
<p><code>${method} ${path}</code></p>
${description && paragraphs(description)}
<dl>${[...parameters, ...fields].map(
      ({ name, place, description }) =>
        html`<dt><code>${name}</code> <span class="faint">${place}</span></dt><dd>${inline(description)}</dd>\n`,
    )}</dl>
<p>Responses: ${replies.join(', ')}. <a href="/docs/reference#${operationId}">Samples</a></p>
`,
)}`

/** Renders the Markdown of a description, of which the contract uses paragraphs, lists and code. */
function paragraphs(text: string): Html {
  const render = (block: string) => {
    const items = (mark: RegExp) => block.split(mark).map((item) => html`<li>${inline(item)}</li>`)
    if (block.startsWith('- ')) return html`<ul>${items(/^- /m).slice(1)}</ul>`
    if (block.startsWith('1. ')) return html`<ol>${items(/^\d+\. /m).slice(1)}</ol>`
    return html`<p>${inline(block)}</p>`
  }
  return html`${text.trim().split('\n\n').map(render)}`
}

function inline(text: string): Html {
  return html`${text.split('`').map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}`
}

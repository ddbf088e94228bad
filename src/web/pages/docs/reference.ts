import { STATUS_CODES } from 'node:http'
import { errorsByStatus } from '../../../errors.ts'
import { clientDigest } from '../../files.ts'
import { html } from '../../text/html.ts'
import { enumerate } from '../../text/text.ts'
import { contractVersion, samples } from './samples.ts'

/** The names of the contract where Node.js has those of earlier standards. */
const NAMES: Record<number, string> = { 413: 'Content Too Large', 422: 'Unprocessable Content' }

/** Paths of pages, and what they show. */
const PAGES: readonly [paths: string[], content: string][] = [
  [['/'], 'the repositories that you may see'],
  [['/{owner}'], 'those of a user or a group'],
  [['/{owner}/{repo}'], 'branches and commits, with what was reported on them'],
  [['/{owner}/{repo}/commits/{sha}'], 'a commit and its checks'],
  [['/{owner}/{repo}/commits/{name}'], 'leads there, by 7 or more digits of the id, a branch or a tag'],
  [
    ['/{owner}/{repo}/checks?ref=main'],
    'the checks of the newest commits as a table, and since when each failing one fails',
  ],
  [['/{owner}/{repo}/badge.svg'], 'a badge for READMEs'],
  [['/{owner}/{repo}.git'], 'git over HTTP, with partial clones and "go get"; Git LFS is not supported'],
  [
    ['/settings/tokens', '/settings/account'],
    'tokens, password, sessions and security events of the signed-in user',
  ],
  [['/docs', '/docs/reference', '/openapi.yaml', '/openapi.json'], 'the API'],
  [['/docs/recipes'], 'reports from CI systems'],
]

const digest = clientDigest()

/** What readers of the contract ask for, made from it; and what there is beside it. */
export const referenceView = html`<h1>Samples, pages, versions and errors</h1>
<p>How the <a href="/docs">API</a> is called, how it changes, what its errors say, and which pages there are.</p>
<h2 id="samples">Code samples</h2>
<p><code>BASE_URL</code> is the address of this server, <code>TOKEN</code> a <a href="/settings/tokens">personal access token</a>,
and <code>SHA</code> the full id of a commit. The Python needs only its standard library.</p>
<p id="client">The <a href="/docs/client">TypeScript client</a> comes from this server alone; no registry has it:
<code>npm install --no-save $BASE_URL/assets/commit-status-client.tgz</code>. ${digest ? html`The SHA-256 of this file is <code>${digest}</code>.` : ''}</p>
${samples.map(
  ({ operationId, summary, code }) => html`<h3 id="${operationId}">${summary}</h3>
${Object.entries(code).map(
  ([language, text]) => html`<h4>${language}</h4>
<pre tabindex="0"><code data-language="${language}">${text}</code></pre>
`,
)}`,
)}
<h2 id="pages">Pages</h2>
<div class="scroll" tabindex="0" role="group" aria-labelledby="pages"><table>
<thead><tr><th scope="col">Page</th><th scope="col">Content</th></tr></thead>
<tbody>${PAGES.map(
  ([
    paths,
    content,
  ]) => html`<tr><td>${enumerate(paths.map((path) => html`<code>${path}</code>`))}</td><td>${content}</td></tr>
`,
)}</tbody></table></div>
<p>The page of a commit shows failures first and folds what passed. While checks are pending, or required ones have not reported, it
brings itself up to date. It calls a pending check stalled when nothing was reported for an hour, or the time in <code>STALLED_AFTER</code>.</p>
<h2 id="badge">Badge</h2>
<p>A public repository has a badge with the state of its default branch. <code>ref</code> names another branch or a tag, and
<code>context</code> one check. Names are percent-encoded where a URL requires it.</p>
<pre tabindex="0">[![Commit status](https://status.example.org/acme/rocket/badge.svg?ref=main&amp;context=ci/build)](https://status.example.org/acme/rocket?ref=main)</pre>
<p>The page of a repository has such a line to copy. Caches may show a badge for 60 seconds after the state has changed, and also for
60 seconds after the repository was made private. A commit on which nothing has reported, or not this <code>context</code>, has the
badge "no status". A private repository, a missing one, and an unknown <code>ref</code> all have the same badge, "unknown".</p>
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

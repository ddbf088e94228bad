import { shellQuote } from '../../util/shell-quote.ts'
import { type Html, html } from './html.ts'
import { copyButton } from './text.ts'

/**
 * Renders the ways to report from CI. A command to copy would have one context for all events, so a
 * push could hide the failure of a pull request; a worker has no other events than pushes.
 *
 * @param repository OWNER/NAME; empty for any
 */
export function ciLines(repository: string): Html {
  return html`<p>Use the <a href="${recipePath(repository)}">recipe for your CI system</a>, with the token in <code>COMMIT_STATUS_TOKEN</code>.</p>
  <p>Without one, a worker runs a script of yours on each commit that is pushed. Whoever may push then runs code there. Install the
  <a href="/docs/client#install">client</a> on any machine, set <code>COMMIT_STATUS_URL</code> to the address of this server, and start:</p>
  <div class="copy"><code id="work">commit-status work --repo ${repository || 'OWNER/NAME'} --context ci/all -- ./ci.sh</code>
  ${copyButton('work', 'the command of a worker')}</div>`
}

/** Returns the path of the page of recipes. @param repository OWNER/NAME; empty for none */
export function recipePath(repository: string, file = ''): string {
  const query = new URLSearchParams({ ...(file && { file }), ...(repository && { repository }) })
  return `/docs/recipes${query.size > 0 ? `?${query}` : ''}${file ? '#file' : ''}`
}

/** Returns a command that reports a status. @param path below `/repos/` @param token or variable */
export function reportCommand(origin: string, path: string, token: string, context = 'hello'): string {
  const body = JSON.stringify({ state: 'success', context, description: 'Reported by hand' })
  return `curl -X POST ${origin}/api/v1/repos/${path} \\
  -H "Authorization: Bearer ${token}" \\
  -H "Content-Type: application/json" \\
  -d ${shellQuote(body)}`
}

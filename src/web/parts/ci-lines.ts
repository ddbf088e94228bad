import { shellQuote } from '../../util/shell-quote.ts'
import { type Html, html } from './html.ts'
import { copyButton } from './text.ts'

/**
 * Renders the way to report from CI. A command to copy would have one context for all events, so a
 * push could hide the failure of a pull request.
 *
 * @param origin the public origin
 */
export function ciLines(origin: string): Html {
  const link = `${origin}/assets/recipes.md`
  return html`<p>Use the <a href="/assets/recipes.md">recipe for your CI system</a>, with the token in <code>COMMIT_STATUS_TOKEN</code>:</p>
  <div class="copy"><code id="recipes">${link}</code>${copyButton('recipes', 'the link to the recipes')}</div>`
}

/** Returns a command that reports a status. @param path below `/repos/` @param token or variable */
export function reportCommand(origin: string, path: string, token: string, context = 'hello'): string {
  const body = JSON.stringify({ state: 'success', context, description: 'Reported by hand' })
  return `curl -X POST ${origin}/api/v1/repos/${path} \\
  -H "Authorization: Bearer ${token}" \\
  -H "Content-Type: application/json" \\
  -d ${shellQuote(body)}`
}

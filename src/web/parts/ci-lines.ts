import { type Html, html } from './html.ts'
import { copyButton } from './text.ts'

/** Renders commands for CI jobs, ready to copy. @param origin the public origin */
export function ciLines(origin: string): Html {
  const shell = `curl --retry 5 -fsSo commit-status ${origin}/assets/commit-status.sh
COMMIT_STATUS_URL=${origin} sh commit-status run --context ci/test -- make test`
  const node = `COMMIT_STATUS_URL=${origin} npx --yes --package ${origin}/assets/commit-status-client.tgz -- \\
  commit-status run --context ci/test -- npm test`
  return html`<p>In a CI job, with the token in <code>COMMIT_STATUS_TOKEN</code>:</p>
  <div class="copy"><pre id="ci-shell" tabindex="0">${shell}</pre>
    ${copyButton('ci-shell', 'the commands')}</div>
  <p>With Node.js:</p>
  <div class="copy"><pre id="ci-node" tabindex="0">${node}</pre>
    ${copyButton('ci-node', 'the command')}</div>`
}

/** Returns a command that reports a status. @param path below `/repos/` @param token or variable */
export function reportCommand(origin: string, path: string, token: string, context = 'hello'): string {
  const body = JSON.stringify({ state: 'success', context, description: 'Reported by hand' })
  return `curl -X POST ${origin}/api/v1/repos/${path} \\
  -H "Authorization: Bearer ${token}" \\
  -H "Content-Type: application/json" \\
  -d '${body.replaceAll("'", "'\\''")}'`
}

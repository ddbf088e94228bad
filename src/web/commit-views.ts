import { html } from 'hono/html'
import type { CombinedState } from '../domain/combined-state.ts'
import { isHttpUrl } from '../domain/http-url.ts'
import type { ListedRepository } from '../store/repository-listing.ts'
import type { ReportedStatus } from '../store/statuses.ts'
import type { Permission } from '../store/tables.ts'
import { formatTime } from '../store/time.ts'
import { type Html, time } from './layout.ts'
import { reporter } from './reporter.ts'
import { stateBadge } from './state-badge.ts'

/** Renders all statuses of a commit in chunks, since there may be thousands. @param state null when there are none */
export async function* commitView(
  { owner, name, permission }: ListedRepository,
  sha: string,
  state: CombinedState | null,
  statuses: AsyncIterable<ReportedStatus>,
): AsyncGenerator<Html> {
  yield html`<p class="crumbs"><a href="/${owner}/${name}">${owner} / ${name}</a></p>
<h1>${stateBadge(state)} <span class="sr">Commit</span> <code class="sha">${sha}</code></h1>
`
  if (state === null) {
    yield html`<p class="empty">No statuses have been reported for this commit.</p>`
    return
  }
  yield html`<div class="scroll" tabindex="0" role="group" aria-label="Statuses"><table>
  <thead><tr><th scope="col">State</th><th scope="col">Context</th><th scope="col">Description</th>
    <th scope="col">First reported</th><th scope="col">Last reported</th></tr></thead>
  <tbody>`
  for await (const status of statuses) yield statusRow(status, permission)
  yield html`</tbody>
</table></div>`
}

function statusRow(status: ReportedStatus, permission: Permission | null): Html {
  const { context, description } = status
  return html`<tr>
  <td>${stateBadge(status.state)}</td>
  <th scope="row">${link(status.target_url, context)}</th>
  <td>${description ?? ''}</td>
  <td data-column="First reported">${time(formatTime(status.created_at))}</td>
  <td data-column="Last reported">${time(formatTime(status.updated_at))} ${reporter(status, permission)}</td>
</tr>`
}

/** Renders a link. Checks the URL again, so that only http(s) URLs become links whatever the database holds. */
function link(target: string | null, text: string): Html {
  const href = target !== null && isHttpUrl(target) ? URL.parse(target)?.href : undefined
  return href ? html`<a href="${href}" rel="noopener noreferrer nofollow">${text}</a>` : html`${text}`
}

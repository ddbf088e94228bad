import { html } from 'hono/html'
import type { ReportedStatus } from '../store/statuses.ts'
import type { Permission } from '../store/tables.ts'
import type { Html } from './layout.ts'
import { shownText } from './text.ts'

/**
 * Renders who reported a status last; nothing if it is not known.
 *
 * @param permission of the visitor: names of tokens are for those who may write
 */
export function reporter(
  { reporter_user: user, reporter_token: token }: ReportedStatus,
  permission: Permission | null,
): Html | '' {
  if (user === null) return ''
  return html`<span class="faint">by ${user}${permission === 'write' && token ? html`, token ${shownText(token)}` : ''}</span>`
}

import type { Session } from '../../../auth/session.ts'
import type { AccessEntry } from '../../../store/access/access-list.ts'
import type { Reason } from '../../../store/access/access-rules.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import { MAX_COMMITS, MAX_PUSHES, type UsedToken } from '../../../store/access/used-tokens.ts'
import { changePermission, givePermission, refusedForms } from '../../forms/permission-forms.ts'
import { time } from '../../layout/layout.ts'
import { settingsHead } from '../../layout/repository-head.ts'
import { type Html, html } from '../../text/html.ts'
import { settingsPath } from '../../text/repository-paths.ts'
import { shownText } from '../../text/text.ts'

interface AccessView {
  session: Session
  repository: ReadableRepository
  entries: readonly AccessEntry[]
  /** Whether the user may see the members of the owner. */
  isMember: boolean
  /** Of the last 30 days. */
  usedTokens: readonly UsedToken[]
  /** What was sent; empty at first. */
  form: URLSearchParams
  error: string | undefined
  /** For who has no account. */
  invitation: Html
}

const REASONS: Record<Reason, (owner: string) => string> = {
  owner: () => 'is the owner',
  member: (owner) => `is a member of ${owner}`,
  granted: () => 'was given access',
  public: () => 'the repository is public',
}

export function accessView(view: AccessView): Html {
  const { repository, entries } = view
  const { row, add } = refusedForms(
    view,
    entries.map(({ user, reason }) => (reason === 'granted' ? user : null)),
  )
  return html`${settingsHead(repository, '/access')}
<section aria-labelledby="who">
  <h2 id="who">Who has access</h2>
  <div class="scroll" tabindex="0" role="group" aria-labelledby="who"><table>
    <thead><tr><th scope="col">User</th><th scope="col">Access</th><th scope="col">Why</th><th scope="col"><span class="sr">Actions</span></th></tr></thead>
    <tbody>${entries.map((entry) => entryRow(view, entry, row))}</tbody>
  </table></div>
</section>
${usedTokensTable(view.usedTokens)}
<section class="card" aria-labelledby="add">
  <h2 id="add">Give access</h2>
  ${givePermission(formsOf(view), html`<button type="submit">Give access</button>`, add)}
  ${view.invitation}
</section>`
}

function usedTokensTable(tokens: readonly UsedToken[]): Html {
  const row = ({ user, token, pushedAt, reportedAt }: UsedToken) => html`<tr>
  <th scope="row">${user}</th>
  <td data-column="Token">${shownText(token)}</td>
  <td data-column="Last push">${lastTime(pushedAt)}</td>
  <td data-column="Last report">${lastTime(reportedAt)}</td>
</tr>`
  return html`<section aria-labelledby="tokens">
  <h2 id="tokens">Tokens used here</h2>
  <p class="hint">In the last 30 days: by the newest ${MAX_PUSHES.toLocaleString('en')} pushes, and the latest reports on the newest ${MAX_COMMITS} commits to which they moved branches. Reads leave no trace.</p>
  ${
    tokens.length === 0
      ? html`<p class="empty">No token has pushed, or reported on what was pushed.</p>`
      : html`<div class="scroll" tabindex="0" role="group" aria-labelledby="tokens"><table>
    <thead><tr><th scope="col">User</th><th scope="col">Token</th><th scope="col">Last push</th><th scope="col">Last report</th></tr></thead>
    <tbody>${tokens.map(row)}</tbody>
  </table></div>`
  }
</section>`
}

function lastTime(milliseconds: number | null): Html | string {
  return milliseconds === null ? '–' : time(new Date(milliseconds).toISOString())
}

function entryRow(
  view: AccessView,
  { user, permission, reason, lockedAt }: AccessEntry,
  refused: ReturnType<typeof refusedForms>['row'],
): Html {
  const { owner } = view.repository
  const why = REASONS[reason](owner)
  return html`<tr>
  <th scope="row">${user ?? 'everyone'} ${lockedAt === null ? '' : html`<span class="badge pending">locked</span>`}</th>
  <td data-column="Access">${permission}</td>
  <td data-column="Why">${reason === 'member' && view.isMember ? html`<a href="/${owner}#members">${why}</a>` : why}</td>
  <td class="action">${reason === 'granted' && user !== null ? changePermission(formsOf(view), user, permission, refused) : ''}</td>
</tr>`
}

function formsOf({ session, repository }: AccessView) {
  return { session, action: settingsPath(repository, '/access'), admin: 'these settings too' }
}

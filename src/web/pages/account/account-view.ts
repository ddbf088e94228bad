import { MIN_PASSWORD_LENGTH } from '../../../auth/password-rules.ts'
import type { Session } from '../../../auth/session.ts'
import { type SessionInfo, sessionId } from '../../../store/accounts/sessions.ts'
import type { PasswordChange } from '../../../store/accounts/users.ts'
import { formatTime } from '../../../store/time.ts'
import { type EventList, eventList } from '../../events/event-list.ts'
import { field } from '../../forms/form.ts'
import { csrfField, time } from '../../layout/layout.ts'
import { type Html, html } from '../../text/html.ts'
import { visibleText } from '../../text/text.ts'
import { browserName } from './browser-name.ts'

/** What is wrong with the form for a new password, by field. */
type PasswordErrors = Partial<Record<'current' | 'password' | 'again', string>>

/** The content of `/settings/account`. */
export interface AccountView {
  session: Session
  /** Whether the user signs in with a password. */
  hasPassword: boolean
  sessions: SessionInfo[]
  /** Whether the user has more sessions than are shown. */
  moreSessions: boolean
  events: EventList
  errors?: PasswordErrors
  changed?: PasswordChange
}

export function accountView(view: AccountView): Html {
  const { session, sessions, errors, changed } = view
  return html`<h1>Account</h1>
<p class="lead">You are signed in as ${session.user?.name}.</p>
${changed ? changedView(changed) : ''}
<section aria-labelledby="sessions">
  <h2 id="sessions">Signed-in browsers</h2>
  ${sessionTable(session, sessions)}
  ${view.moreSessions ? html`<p class="hint">You have more sessions than these. You can end all of them at once.</p>` : ''}
  ${sessions.length > 1 ? endOthersForm(session) : ''}
</section>
${view.hasPassword ? passwordForm(session, errors ?? {}) : ''}
<section aria-labelledby="events">
  <h2 id="events">Security events</h2>
  ${eventList(view.events, '/settings/account?', { user: session.user?.name })}
</section>`
}

function changedView({ sessions, tokens }: PasswordChange): Html {
  const endedSessions = sessions === 1 ? '1 other session was' : `${sessions} other sessions were`
  return html`<section class="card created" aria-labelledby="changed" role="status">
  <h2 id="changed">Password changed</h2>
  <p>${endedSessions} ended. ${tokens === 0 ? 'You have no tokens.' : tokensLeft(tokens)}</p>
</section>`
}

function tokensLeft(tokens: number): Html {
  return html`${tokens === 1 ? '1 token still works' : `${tokens} tokens still work`}: if someone else may know
    ${tokens === 1 ? 'it, revoke it' : 'them, revoke them'} under <a href="/settings/tokens">Tokens</a>.`
}

function sessionTable(session: Session, sessions: SessionInfo[]): Html {
  return html`<div class="scroll" tabindex="0" role="group" aria-labelledby="sessions"><table>
  <thead><tr><th scope="col">Browser</th><th scope="col">Address</th><th scope="col">Signed in</th>
    <th scope="col">Last seen</th><th scope="col"><span class="sr">Actions</span></th></tr></thead>
  <tbody>${sessions.map((row) => sessionRow(session, row))}</tbody>
</table></div>`
}

function sessionRow(session: Session, { id, createdAt, seenAt, address, userAgent }: SessionInfo): Html {
  const browser = browserName(userAgent)
  const action =
    id === sessionId(session.hash ?? '')
      ? html`<span class="faint">this browser</span>`
      : html`<form method="post" action="/settings/account/sessions/${id}/end">
      ${csrfField(session)}
      <button class="quiet" type="submit">End<span class="sr"> session of ${browser}${address ? ` at ${address}` : ''}, last seen ${formatTime(seenAt)}</span></button>
    </form>`
  return html`<tr>
  <th scope="row" title="${visibleText(userAgent ?? '')}">${browser}</th>
  <td data-column="Address">${address ?? html`<span class="faint">unknown</span>`}</td>
  <td data-column="Signed in">${time(formatTime(createdAt))}</td>
  <td data-column="Last seen">${time(formatTime(seenAt))}</td>
  <td class="action">${action}</td>
</tr>`
}

function endOthersForm(session: Session): Html {
  return html`<form method="post" action="/settings/account/sessions/end-others">
  ${csrfField(session)}
  <button class="quiet" type="submit">End all other sessions</button>
</form>`
}

function passwordForm(session: Session, errors: PasswordErrors): Html {
  return html`<section class="card" aria-labelledby="password-title">
  <h2 id="password-title">Change password</h2>
  <form method="post" action="/settings/account/password">
  ${csrfField(session)}
  <input type="text" name="username" value="${session.user?.name}" autocomplete="username" hidden>
  ${passwordField('current', 'Current password', 'current-password', errors)}
  ${passwordField('password', 'New password', 'new-password', errors, `At least ${MIN_PASSWORD_LENGTH} characters. Not your name, and not a common password.`)}
  ${passwordField('again', 'New password again', 'new-password', errors)}
  <p class="hint">This ends all your other sessions. Tokens keep working.</p>
  <button type="submit">Change password</button>
  </form>
</section>`
}

function passwordField(
  name: keyof PasswordErrors,
  label: string,
  autocomplete: string,
  errors: PasswordErrors,
  hint?: string,
): Html {
  const control = (attributes: Html) =>
    html`<input ${attributes} type="password" autocomplete="${autocomplete}" required>`
  return field({ name, label, hint, error: errors[name] }, control)
}

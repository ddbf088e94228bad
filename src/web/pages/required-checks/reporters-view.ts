import type { Session } from '../../../auth/session.ts'
import { type RefRule, requiredBy } from '../../../domain/ref-rules.ts'
import {
  deletingCommand,
  noteOnResults,
  noteOnUnable,
  type Result,
} from '../../../domain/reported-results.ts'
import { isOpen } from '../../../domain/reservations.ts'
import type { ReadableRepository } from '../../../store/access/readable-repositories.ts'
import { type NamedReservation, reservationState } from '../../../store/repositories/reservations.ts'
import { field } from '../../forms/form.ts'
import { csrfField } from '../../layout/layout.ts'
import { type Html, html } from '../../text/html.ts'
import { settingsPath } from '../../text/repository-paths.ts'
import { enumerate, shownText, visibleText } from '../../text/text.ts'

/** The form for a reservation as filled in, and what is wrong with it. */
export interface ReportersForm {
  pattern: string
  /** Names of users. */
  users: readonly string[]
  /** `reservationState` of the reservation when the form was made. */
  seen: string
  error?: string
  usersError?: string
}

/** Who may report, and what was reported on the newest commits of branches with rules. */
export interface Reporting {
  reservations: readonly NamedReservation[]
  /** Names of users of reservations who may not write, or are locked. */
  unable: readonly string[]
  /** How many commits were looked at; null if git cannot read them. */
  commits: number | null
  /** Results of a reservation's contexts that somebody else reported, by its pattern. */
  foreign: ReadonlyMap<string, readonly Result[]>
  /** The users who have reported contexts that match a pattern, by the patterns of `isOpen`. */
  lately: ReadonlyMap<string, readonly string[]>
  form: ReportersForm
}

interface ReportersView {
  session: Session
  repository: ReadableRepository
  reporting: Reporting
}

/** Commands that are shown for a reservation. */
const SHOWN = 30

/** Renders which checks of the rules everybody may report, with links that fill in the form. */
export function openChecks(
  { reservations, lately }: Reporting,
  rules: readonly RefRule[],
  path: string,
): Html | string {
  const open = requiredBy(rules).filter((pattern) => isOpen(reservations, pattern))
  if (open.length === 0) return ''
  const item = (pattern: string) => {
    const names = lately.get(pattern) ?? []
    const offer = names.length === 0 ? '' : html` for ${enumerate(names.map(shownText))}`
    return html`${shownText(pattern)} (<a href="${path}?reserve=${encodeURIComponent(pattern)}#reporters">reserve<span class="sr"> ${shownText(pattern)}</span>${offer}</a>)`
  }
  return html`<div class="hint">Everybody who may write may report ${enumerate(open.map(item))}.</div>`
}

export function reportersView(view: ReportersView): Html {
  const { session, repository, reporting } = view
  const { reservations, form } = reporting
  const isChange = form.seen !== reservationState(null)
  return html`<section class="card" aria-labelledby="reporters">
  <h2 id="reporters">Who may report</h2>
  <p class="hint">Only the named users may report contexts that match; all patterns that match must name them. Everybody who
    may write may still ask for another run with a <code>pending</code>.</p>
  ${reservations.length === 0 ? html`<p class="empty">Everybody who may write may report any context.</p>` : reservationTable(view)}
  <form method="post" action="${settingsPath(repository, '/checks')}">
    ${csrfField(session)}<input type="hidden" name="seen" value="${form.seen}">
    ${field(
      {
        name: 'pattern',
        label: 'Contexts',
        hint: html`A context, or a pattern: <code>*</code> stands for any characters. Upper and lower case differ.`,
        error: form.error,
      },
      (attributes) =>
        html`<input ${attributes} value="${form.pattern}" required autocomplete="off" spellcheck="false" ${isChange ? 'readonly' : ''}>`,
    )}
    ${field(
      {
        name: 'users',
        label: 'Users who may report them',
        hint: 'One name per line, such as that of the user of your CI. A group cannot be named.',
        error: form.usersError,
      },
      (attributes) => html`<textarea ${attributes} rows="2" required autocomplete="off" spellcheck="false">
${form.users.join('\n')}</textarea>`,
    )}
    <button class="quiet" type="submit" name="change" value="reserve">Reserve contexts</button>
  </form>
</section>`
}

function reservationTable(view: ReportersView): Html {
  return html`<div class="scroll" tabindex="0" role="group" aria-label="Reserved contexts"><table>
    <thead><tr><th scope="col">Contexts</th><th scope="col">Who may report</th><th scope="col"><span class="sr">Actions</span></th></tr></thead>
    <tbody>${view.reporting.reservations.map((reservation) => reservationRow(view, reservation))}</tbody>
  </table></div>
  ${view.reporting.commits === null ? html`<p class="hint">Earlier results of others cannot be listed: the commits cannot be read at the moment.</p>` : ''}`
}

function reservationRow(
  { session, repository, reporting }: ReportersView,
  reservation: NamedReservation,
): Html {
  const { pattern, users } = reservation
  const path = settingsPath(repository, '/checks')
  const unable = users.filter(({ name }) => reporting.unable.includes(name))
  return html`<tr>
  <th scope="row">${shownText(pattern)}</th>
  <td data-column="Who may report">${users.length === 0 ? html`<span class="faint">nobody</span>` : users.map(({ name }) => name).join(', ')}
    ${unable.map(({ name }) => html`<div class="hint">${noteOnUnable(name)}.</div>`)}
    ${foreignResults(repository, reporting, reservation)}</td>
  <td class="action"><form class="row" method="post" action="${path}">
    ${csrfField(session)}<input type="hidden" name="pattern" value="${pattern}"><input type="hidden" name="seen" value="${reservationState(reservation)}">
    <a href="${path}?reserve=${encodeURIComponent(pattern)}#reporters">Change<span class="sr"> ${visibleText(pattern)}</span></a>
    <button class="quiet" type="submit" name="change" value="open">Let everybody report<span class="sr"> ${visibleText(pattern)}</span></button>
  </form></td>
</tr>`
}

function foreignResults(
  { owner, name }: ReadableRepository,
  { foreign, commits }: Reporting,
  { pattern }: NamedReservation,
): Html | '' {
  const results = foreign.get(pattern) ?? []
  const note = noteOnResults(results, commits ?? 0)
  if (note === null) return ''
  const command = (result: Result) =>
    html`<div><code>${shownText(deletingCommand(`${owner}/${name}`, result))}</code></div>`
  const more = results.length - SHOWN
  return html`<details><summary>${note}</summary>
    ${results.slice(0, SHOWN).map(command)}${more > 0 ? html`<div class="faint">and ${more} more</div>` : ''}</details>`
}

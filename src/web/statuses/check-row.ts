import { allows, type Permission } from '../../domain/permissions.ts'
import { COMBINED } from '../../domain/states.ts'
import type { ReportedStatus } from '../../store/statuses/statuses.ts'
import { formatTime } from '../../store/time.ts'
import { truncate } from '../../util/truncate.ts'
import { type Html, html } from '../text/html.ts'
import { formatAge, formatElapsed, shownName, shownText, targetLink } from '../text/text.ts'
import { stateIcon } from './state-summary.ts'

/** What a row shows of a status besides the status itself. */
export interface StatusNotes {
  /** Since when the check fails. */
  since: readonly Html[]
  /** Whether a rule requires the check, and it has not passed. */
  isUnmet: boolean
  isStalled: boolean
  /** null if it is not known, or said elsewhere. */
  reporter: Html | null
  /** Whether the user may ask for another run. */
  canRunAgain: boolean
}

/** The form that the buttons of checks belong to. It is no part of what is brought up to date. */
export const RUN_AGAIN = 'run-again'

/** Code points of a description that fit in the line of a row, and that are shown when it is opened. */
const LINE = 30
const OPENED = 200

/**
 * Renders a status as an item of a list of checks, in one line: its state, its name with a link to
 * the log, its description, and when it was reported.
 */
export function statusRow(status: ReportedStatus, notes: StatusNotes): Html {
  const { id, state, context, pending_at, updated_at, run, claim_run } = status
  const isPending = COMBINED[state] === 'pending'
  const took = isPending || pending_at === null ? '' : formatElapsed(updated_at - pending_at)
  const isClaimed = isPending && run !== null && run === claim_run
  return html`<li id="s-${id}">
${stateIcon(state)}
<span class="name">${targetLink(status.target_url, shownName(context))}${notes.isStalled ? html` <span class="badge stalled">stalled</span>` : ''}${notes.isUnmet ? html` <span class="badge required">required</span>` : ''}</span>
${noteOf(status.description ?? '', notes)}
<span class="faint">${took && html`${took} · `}${isClaimed ? 'last heard of ' : ''}${formatAge(formatTime(updated_at))}${
    notes.canRunAgain
      ? html` <button class="quiet" type="submit" form="${RUN_AGAIN}" name="status" value="${id}">Run again<span class="sr">: ${shownName(context)}</span></button>`
      : ''
  }</span></li>
`
}

/** Renders a required pattern that no context matches, as `statusRow`. */
export function missingRow(pattern: string): Html {
  return html`<li>
<span class="icon none">not reported</span>
<span class="name">${shownName(pattern)} <span class="badge required">required</span></span></li>
`
}

/** Renders a description in one line. What may not fit is shown when the user opens it. */
function noteOf(description: string, { since, reporter }: StatusNotes): Html | string {
  if (description === '' && since.length === 0 && reporter === null) return ''
  return html`<div class="faint note">${lineOf(description, reporter)} ${since}</div>`
}

function lineOf(description: string, reporter: Html | null): Html | string {
  if (reporter === null && truncate(description, LINE) === description)
    return description && shownText(description)
  const cut = truncate(description, OPENED)
  const start = cut === description ? cut : cut.slice(0, -1)
  return html`<details><summary>${start ? shownText(start) : reporter}</summary>${start && shownText(description.slice(start.length))} ${start && reporter}</details>`
}

/** Renders who reported a status last; null if not known. Only those who may write see names of tokens. */
export function reporterOf(
  { reporter_user: user, reporter_token: token }: ReportedStatus,
  permission: Permission | null,
): Html | null {
  if (user === null) return null
  return html`reported by ${user}${allows(permission, 'write') && token ? html`, token ${shownText(token)}` : ''}`
}

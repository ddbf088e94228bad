import { describeDetails } from '../../domain/event-details.ts'
import type { AuditLine } from '../../store/audit/audit.ts'
import { type Html, html } from './html.ts'
import { time } from './layout.ts'
import { cutText, shownText } from './text.ts'

/** Maximum number of events on a page. */
const EVENTS = 100

/** A page of events, newest first. */
export interface EventList {
  events: readonly AuditLine[]
  /** Value of `before` on the page with older events; null if there are none. */
  older: string | null
}

/**
 * Reads a page of events.
 *
 * @param read returns up to `count` events before a position, newest first
 * @param before as the page was asked for; anything but `EventList.older` is the first page
 */
export async function readEvents(
  read: (count: number, before?: { time: number; id: number }) => Promise<AuditLine[]>,
  before: string,
): Promise<EventList> {
  const [, time, id] = /^(\d{1,15})-(\d{1,15})$/.exec(before) ?? []
  const events = await read(
    EVENTS + 1,
    time === undefined ? undefined : { time: Number(time), id: Number(id) },
  )
  const last = events.length > EVENTS ? events[EVENTS - 1] : undefined
  return { events: events.slice(0, EVENTS), older: last ? `${Date.parse(last.time)}-${last.id}` : null }
}

/** Renders events below the heading `events`. @param reader who sees them */
export function eventList({ events, older }: EventList, path: string, reader?: string): Html {
  return html`${events.length === 0 ? html`<p class="empty">There are no events.</p>` : eventTable(events, reader)}
  ${older === null ? '' : html`<p><a href="${path}?before=${older}#events">Older events</a></p>`}`
}

function eventTable(events: readonly AuditLine[], reader?: string): Html {
  return html`<div class="scroll" tabindex="0" role="group" aria-labelledby="events"><table class="events">
  <thead><tr><th scope="col">Event</th><th scope="col">Object</th><th scope="col">By</th><th scope="col">Address</th>
    <th scope="col">Time</th><th scope="col">Details</th></tr></thead>
  <tbody>${events.map((event) => eventRow(event, reader))}</tbody>
</table></div>`
}

function eventRow(event: AuditLine, reader?: string): Html {
  return html`<tr>
  <th scope="row"><code>${event.action}</code></th>
  <td data-column="Object">${shownText(event.object)}</td>
  <td data-column="By">${actor(event, reader)}</td>
  <td data-column="Address">${event.address ?? html`<span class="faint">none</span>`}</td>
  <td data-column="Time">${time(event.time)}</td>
  <td data-column="Details">${cutText(describeDetails(event), 200)}</td>
</tr>`
}

function actor({ actor, user, token_name }: AuditLine, reader?: string): Html | string {
  if (actor === 'administrator') return 'an administrator'
  if (actor === 'anonymous') return 'someone who was not signed in'
  if (user !== null && user !== reader) return shownText(user)
  return token_name === null ? 'you' : html`your token “${shownText(token_name)}”`
}

import { describeDetails } from '../../domain/event-details.ts'
import type { AuditLine } from '../../store/audit/audit.ts'
import { time } from '../layout/layout.ts'
import { type Html, html } from '../text/html.ts'
import { cutText, shownText } from '../text/text.ts'
import { type EventGroup, groupLandings } from './landings.ts'
import { type EventReader, sentenceOf } from './sentences.ts'

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

/**
 * Renders events below the heading `events`.
 *
 * @param path of the page, with the beginning of a query: `/settings/account?`
 * @param none what it says if there are none
 */
export function eventList(
  { events, older }: EventList,
  path: string,
  reader: EventReader,
  none = html`There are no events.`,
): Html {
  return html`${events.length === 0 ? html`<p class="empty">${none}</p>` : eventTable(events, reader)}
  ${older === null ? '' : html`<p><a href="${path}before=${older}#events">Older events</a></p>`}`
}

function eventTable(events: readonly AuditLine[], reader: EventReader): Html {
  return html`<div class="scroll" tabindex="0" role="group" aria-labelledby="events"><table class="events">
  <thead><tr><th scope="col">Event</th><th scope="col">Time</th></tr></thead>
  <tbody>${groupLandings(events).map((group) => eventRow(group, reader))}</tbody>
</table></div>`
}

function eventRow({ event, earlier }: EventGroup, reader: EventReader): Html {
  const { sentence, before } = sentenceOf(event, reader)
  return html`<tr>
  <th scope="row">${sentence}.${before && html` <span class="faint">Before: ${before}.</span>`}
    <details><summary>Details</summary>${[event, ...earlier].map(eventDetails)}</details></th>
  <td data-column="Time">${time(event.time)}</td>
</tr>`
}

function eventDetails(event: AuditLine): Html {
  const { action, object, address } = event
  const details = describeDetails(event)
  return html`<div class="hint"><code>${action}</code> ${shownText(object)}${address && html`, ${address}`}
    ${details && cutText(details, 200)}</div>`
}

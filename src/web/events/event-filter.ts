import { isOwnerName } from '../../domain/names.ts'
import {
  REPOSITORY_ACTIONS,
  type RepositoryAction,
  type RepositoryEventFilter,
} from '../../store/audit/repository-events.ts'
import { truncate } from '../../util/truncate.ts'
import { firstOf, type Query } from '../routing/query.ts'
import { type Html, html } from '../text/html.ts'
import { shownText } from '../text/text.ts'

/** The query of a page with a filter of events. */
export type EventQuery = Query<'kind' | 'user' | 'before'>

/** Which events of a repository a user wants to see. */
export interface EventFilter extends RepositoryEventFilter {
  /** What is wrong with it. */
  problem: Html | null
}

/** What the kinds of events are called. */
const KINDS: Record<RepositoryAction, string> = {
  push: 'Pushes',
  'rule.bypassed': 'Rules bypassed',
  'rule.set': 'Rules set',
  'rule.removed': 'Rules removed',
  'repository.access': 'Access',
  'repository.reporters': 'Reserved contexts',
  'repository.visibility': 'Visibility',
  'repository.default-branch': 'Default branch',
  'status.requested': 'New runs asked for',
  'status.deleted': 'Statuses deleted',
  'repository.created': 'Created',
  'repository.imported': 'Imported',
  'repository.renamed': 'Renamed',
  'repository.transferred': 'Moved to another owner',
}

/** Characters of what was asked for that an answer repeats. */
const MAX_TEXT = 100

/** Returns the filter that a query asks for. */
export function readEventFilter(query: EventQuery): EventFilter {
  const kind = firstOf(query.kind)
  const action = REPOSITORY_ACTIONS.find((action) => action === kind)
  const user = firstOf(query.user).trim()
  return { action, user: user === '' ? undefined : user, problem: problemOf(kind, action, user) }
}

function problemOf(kind: string, action: RepositoryAction | undefined, user: string): Html | null {
  const quote = (text: string) => shownText(truncate(text, MAX_TEXT))
  if (kind !== '' && action === undefined) return html`There is no kind of events “${quote(kind)}”.`
  if (user !== '' && !isOwnerName(user)) return html`No user can have the name “${quote(user)}”.`
  return null
}

/** Renders the filter, which works without a script. */
export function eventFilterForm({ action, user, problem }: EventFilter): Html {
  const option = (kind: RepositoryAction) =>
    html`<option value="${kind}"${kind === action ? html` selected` : ''}>${KINDS[kind]}</option>`
  return html`<form class="filter" role="search" aria-label="Events">
  <label class="sr" for="kind">Kind</label>
  <select id="kind" name="kind"><option value="">all kinds</option>${REPOSITORY_ACTIONS.map(option)}</select>
  <label class="sr" for="user">By or about the user</label>
  <input id="user" name="user" type="search" value="${user ?? ''}" placeholder="User" autocomplete="off" spellcheck="false">
  <button class="quiet" type="submit">Filter</button>
  ${(action ?? user ?? problem) ? html`<a href="?">Clear</a>` : ''}
</form>
${problem && html`<p class="error" role="alert">${problem}</p>`}`
}

/** Says that nothing passes a filter. A name is not looked up, so the answer does not say whether it exists. */
export function noEvents({ action, user }: EventFilter): Html {
  const kind = action === undefined ? '' : html` of the kind “${KINDS[action]}”`
  return html`There are no events${kind}${user === undefined ? '' : html` by or about “${shownText(user)}”`}.`
}

/** Returns the query of the filter, to go before other parameters. */
export function eventFilterQuery({ action, user }: EventFilter): string {
  const parameters = Object.entries({ kind: action, user }).filter(([, value]) => value !== undefined)
  return parameters.map(([name, value]) => `${name}=${encodeURIComponent(value ?? '')}&`).join('')
}

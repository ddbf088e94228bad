import { NO_OBJECT } from '../../domain/commit-id.ts'
import { itemsOf, type Json, partOf } from '../../domain/event-details.ts'
import { BRANCHES } from '../../domain/ref-names.ts'
import type { AuditLine } from '../../store/audit/audit.ts'
import { type Html, html } from '../text/html.ts'
import { move } from './words.ts'

/** The push with which `commit-status land` ends. */
export interface Landing {
  /** What the push did to the branch. */
  update: Json
  /** What the landing had created, by its full names: what CI builds, and its tickets. */
  removed: ReadonlySet<string>
}

/** An event, with the earlier ones that the page shows in the same row. */
export interface EventGroup {
  event: AuditLine
  earlier: AuditLine[]
}

/** Where the client puts what CI builds, and the tickets; then the branch and the digits of the commit. */
const FOLDERS = [`${BRANCHES}land/`, 'refs/landing/']

/**
 * Returns the landing that a push completes: it moves one branch, and removes what a landing on it
 * has created. null: it is another push.
 *
 * @param more updates that are not listed
 */
export function landingOf(updates: Json | undefined, more?: Json): Landing | null {
  const isNothing = (update: Json, name: 'old' | 'new') => NO_OBJECT.test(String(partOf(update, name)))
  const { moves = [], deletions = [] } = Object.groupBy(itemsOf(updates), (it) =>
    isNothing(it, 'new') ? 'deletions' : 'moves',
  )
  const [update] = moves
  if (update === undefined || moves.length > 1 || more !== undefined || isNothing(update, 'old')) return null
  const branch = String(partOf(update, 'ref'))
  const removed = deletions.map((update) => String(partOf(update, 'ref')))
  const digits = removed[0]?.slice(-12) ?? ''
  if (!branch.startsWith(BRANCHES) || !/^[0-9a-f]{12}$/.test(digits)) return null
  const folders = FOLDERS.map((folder) => `${folder}${branch.slice(BRANCHES.length)}/`)
  const isOwn = (ref: string) =>
    folders.some((folder) => ref.startsWith(folder) && !ref.slice(folder.length).includes('/')) &&
    ref.endsWith(digits)
  return removed.every(isOwn) ? { update, removed: new Set(removed) } : null
}

/** Renders what a landing did: `landed on main, which moved from 89abcde to 7654321`. */
export function landed({ update }: Landing): Html {
  const { ref, from, to } = move(update)
  return html`landed on ${ref}, which moved from ${from} to ${to}`
}

/**
 * Joins the events of each landing that has ended on its branch: the pushes by which its user created
 * and renewed what the last one removes.
 *
 * @param events newest first
 */
export function groupLandings(events: readonly AuditLine[]): EventGroup[] {
  const groups: EventGroup[] = []
  /** By the object and the user, and the ref that the landing has removed. */
  const landings = new Map<string, EventGroup>()
  const keyOf = ({ object, user }: AuditLine, ref: string) => JSON.stringify([object, user, ref])
  for (const event of events) {
    const refs = event.action === 'push' ? itemsOf(event.details.updates) : []
    const [landing, ...others] = new Set(
      refs.map((update) => landings.get(keyOf(event, String(partOf(update, 'ref'))))),
    )
    // Whose end is not known is not hidden.
    const isWhole = event.details.interrupted === undefined && event.details.unknown === undefined
    if (landing && others.length === 0 && isWhole) {
      landing.earlier.push(event)
      continue
    }
    const group = { event, earlier: [] }
    groups.push(group)
    const removed =
      refs.length > 0 ? landingOf(event.details.updates, event.details.more)?.removed : undefined
    for (const ref of removed ?? []) landings.set(keyOf(event, ref), group)
  }
  return groups
}

import { NO_OBJECT, shortId } from '../../domain/commit-id.ts'
import { itemsOf, type Json, partOf } from '../../domain/event-details.ts'
import { BRANCHES, TAGS } from '../../domain/ref-names.ts'
import { type Html, html } from '../text/html.ts'
import { enumerate, shownText } from '../text/text.ts'

/** Renders the name of a user as the reader knows it. */
type Person = (name: Json | undefined) => Html

export function word(value: Json | undefined): Html {
  return shownText(typeof value === 'string' ? value : JSON.stringify(value ?? null))
}

/** Names that a sentence has; the details have all. */
const SHOWN = 5

/** Renders a list, or `none` if it is empty. */
export function listed(items: readonly Json[], render: (item: Json) => Html, none = 'nothing'): Html {
  return items.length === 0 ? html`${none}` : enumerate(items.slice(0, SHOWN).map(render), items.length)
}

export function words(value: Json | undefined): Html {
  return listed(itemsOf(value), word)
}

/** `2 sessions`; without a number if there is none. */
export function counted(value: Json | undefined, noun: string): string {
  const plural = noun.endsWith('s')
    ? `${noun}es`
    : noun.endsWith('y')
      ? `${noun.slice(0, -1)}ies`
      : `${noun}s`
  return typeof value === 'number' ? `${value} ${value === 1 ? noun : plural}` : plural
}

export function ending(sessions: Json | undefined): string {
  return typeof sessions === 'number' && sessions > 0 ? ` and ended ${counted(sessions, 'session')}` : ''
}

export function reporters(users: Json | undefined, person: Person): Html {
  return listed(itemsOf(users), person, 'users who were deleted')
}

export function bypassing(bypass: Json | undefined, person: Person): Html | '' {
  const users = itemsOf(bypass)
  return users.length === 0 ? '' : html`; ${listed(users, person)} may bypass it`
}

export function ruleBefore(rule: Json | undefined, person: Person): Html | null {
  if (typeof rule !== 'object' || rule === null || Array.isArray(rule)) return null
  return html`${words(rule.required)}${bypassing(rule.bypass, person)}`
}

/** Renders a branch or a tag as people call it. */
export function refName(value: Json | undefined): Html {
  if (typeof value !== 'string') return word(value)
  if (value.startsWith(TAGS)) return html`the tag ${shownText(value.slice(TAGS.length))}`
  return shownText(value.startsWith(BRANCHES) ? value.slice(BRANCHES.length) : value)
}

/** Renders a pattern of branches or tags. */
export function refPattern(value: Json | undefined): Html {
  return typeof value === 'string' && value.startsWith(TAGS)
    ? html`tags ${shownText(value.slice(TAGS.length))}`
    : word(value)
}

export function refNames(updates: Json | undefined): Html {
  return listed(itemsOf(updates), (update) => refName(partOf(update, 'ref')))
}

export function commit(sha: Json | undefined): Html {
  return html`<code>${typeof sha === 'string' ? shortId(sha) : '?'}</code>`
}

/** Renders what a push did: `pushed main from 1234567 to 89abcde`. @param more that are not listed */
export function pushed(updates: readonly Json[], more: Json | undefined): Html {
  const [first, ...others] = updates
  if (first === undefined) return html`pushed`
  if (others.length === 0 && more === undefined) {
    const { ref, from, to } = move(first)
    if (to === null) return html`deleted ${ref}`
    return from === null ? html`created ${ref} at ${to}` : html`pushed ${ref} from ${from} to ${to}`
  }
  const total = updates.length + (typeof more === 'number' ? more : 0)
  const inList = (update: Json) => {
    const { ref, from, to } = move(update)
    return html`${ref} (${to === null ? 'deleted' : html`${from ?? 'new'}, ${to}`})`
  }
  return html`pushed ${enumerate(updates.slice(0, SHOWN).map(inList), total)}`
}

/** Returns a ref and its commits before and after a push; null if it did not exist. */
export function move(update: Json): { ref: Html; from: Html | null; to: Html | null } {
  const [from, to] = ['old', 'new'].map((name) => {
    const id = partOf(update, name)
    return typeof id === 'string' && NO_OBJECT.test(id) ? null : commit(id)
  })
  return { ref: refName(partOf(update, 'ref')), from: from ?? null, to: to ?? null }
}

import { shortId } from './commit-id.ts'

export type Json = string | number | boolean | null | Json[] | { [name: string]: Json }

/** Returns the items of a list in stored details. */
export function itemsOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : []
}

/** Returns a part of stored details. */
export function partOf(update: Json | undefined, name: string): Json | undefined {
  return typeof update === 'object' && update !== null && !Array.isArray(update) ? update[name] : undefined
}

/**
 * Returns the details of an event in one line: `sessions=2 tokens=1`; for a push its updates. Empty
 * if there are none. May contain any character that a client sent.
 */
export function describeDetails({
  action,
  details,
}: {
  action: string
  details: Readonly<Record<string, Json>>
}): string {
  const { updates, ...others } = details
  const rest = Object.entries(others).map(([name, value]) => `${name}=${formatValue(value)}`)
  if (action !== 'push' || !Array.isArray(updates)) return rest.join(' ')
  return [...updates.map(describeUpdate), ...rest].join(' ')
}

function describeUpdate(update: Json): string {
  if (typeof update !== 'object' || update === null || Array.isArray(update)) return formatValue(update)
  const { ref, old, new: next } = update
  return `${ref}:${shortId(String(old))}..${shortId(String(next))}`
}

function formatValue(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

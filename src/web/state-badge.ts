import { html } from 'hono/html'
import { COMBINED } from '../store/states.ts'
import type { StatusState } from '../store/tables.ts'
import type { Html } from './layout.ts'

/** Renders a state, or "no status". Its color is the one of the combined state. */
export function stateBadge(state: StatusState | null): Html {
  return html`<span class="badge ${state ? COMBINED[state] : 'unreported'}">${state ?? 'no status'}</span>`
}

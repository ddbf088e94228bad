import { html } from 'hono/html'
import type { StatusState } from '../store/tables.ts'
import type { Html } from './layout.ts'

/** Renders a state, or "no status". */
export function stateBadge(state: StatusState | null): Html {
  return html`<span class="badge ${state ?? 'unreported'}">${state ?? 'no status'}</span>`
}

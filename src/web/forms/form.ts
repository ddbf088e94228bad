import type { Session } from '../../auth/session.ts'
import { Refusal } from '../../domain/refusal.ts'
import { csrfField } from '../layout/layout.ts'
import { type Html, html } from '../text/html.ts'
import { sentence } from '../text/text.ts'

/** A field of a form, around its control. */
interface Field {
  /** Also the id of the control. */
  name: string
  label: string
  hint?: string | Html | undefined
  error?: string | undefined
}

/** Renders a field. @param control renders the control, with these attributes */
export function field({ name, label, hint, error }: Field, control: (attributes: Html) => Html): Html {
  const descriptionIds = [...(hint ? [`${name}-hint`] : []), ...(error ? [`${name}-error`] : [])].join(' ')
  const attributes = html`id="${name}" name="${name}" ${descriptionIds ? html`aria-describedby="${descriptionIds}"` : ''}
    ${error ? html`aria-invalid="true" autofocus` : ''}`
  return html`<div class="field">
    <label for="${name}">${label}</label>
    ${error ? html`<div>${control(attributes)}${fieldError(name, error)}</div>` : control(attributes)}
    ${hint ? html`<p class="hint" id="${name}-hint">${hint}</p>` : ''}
  </div>`
}

/** Renders what is wrong with a field. */
export function fieldError(name: string, message: string | undefined): Html | '' {
  return message ? html`<p class="error" id="${name}-error">${message}</p>` : ''
}

/** A choice: its value, and what people read. */
export type Choice = readonly [value: string, label: string | Html]

/** Renders a field whose value is one of several. */
export function choiceField(of: Field, choices: readonly Choice[], chosen: string): Html {
  return field(of, (attributes) => html`<select ${attributes}>${options(choices, chosen)}</select>`)
}

/** Renders the choices of a `select`. */
export function options(choices: readonly Choice[], chosen: string): Html {
  return html`${choices.map(([value, label]) => html`<option value="${value}"${value === chosen ? html` selected` : ''}>${label}</option>`)}`
}

/** Renders a form of a page that has several, which `change` tells apart. */
export function changeForm(session: Session, action: string, change: string, content: Html): Html {
  return html`<form method="post" action="${action}">
  ${csrfField(session)}<input type="hidden" name="change" value="${change}">
  ${content}
</form>`
}

/** Returns the lines of a field that are not empty. */
export function linesOf(text: string | null): string[] {
  return (text ?? '')
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)
}

/** Does what a form asks for. Returns why it cannot be done, as a sentence; undefined once done. */
export async function problemOf(work: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await work()
    return undefined
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return sentence(error.message)
  }
}

/** Escaped HTML, the result of `html`. */
export class Html {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  toString(): string {
    return this.#text
  }
}

/** undefined renders as nothing. */
type Value = Html | string | number | undefined | readonly Value[]

/** Renders a template. Escapes all values except other templates. */
export function html(strings: TemplateStringsArray, ...values: Value[]): Html {
  let text = strings[0] ?? ''
  for (let index = 0; index < values.length; index++)
    text += textOf(values[index]) + (strings[index + 1] ?? '')
  return new Html(text)
}

function textOf(value: Value): string {
  if (value === undefined) return ''
  if (typeof value === 'string') return escapeText(value)
  if (value instanceof Html || typeof value === 'number') return value.toString()
  let text = ''
  for (const item of value) text += textOf(item)
  return text
}

const ENTITIES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Escapes text for elements and quoted attributes. */
function escapeText(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character)
}

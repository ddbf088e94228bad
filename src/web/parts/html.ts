const SPECIAL = /[&<>"']/g
const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** HTML in which all text is escaped. */
export class Html {
  readonly #text: string

  /** @param text escaped */
  constructor(text: string) {
    this.#text = text
  }

  toString(): string {
    return this.#text
  }
}

/** Null and undefined are left out. */
type Value = Html | string | number | null | undefined | readonly Value[]

/** Returns the HTML of a template. Escapes all values except other templates. */
export function html(strings: TemplateStringsArray, ...values: Value[]): Html {
  let text = strings[0] ?? ''
  for (let index = 0; index < values.length; index++) text += render(values[index]) + strings[index + 1]
  return new Html(text)
}

function render(value: Value): string {
  if (typeof value === 'string') return value.replace(SPECIAL, (character) => ENTITIES[character] ?? '')
  if (Array.isArray(value)) return value.map(render).join('')
  return value?.toString() ?? ''
}

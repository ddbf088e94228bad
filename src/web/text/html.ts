import { characterReplacer } from '../../util/replace-characters.ts'

const ENTITIES = new Map([
  ['&', '&amp;'],
  ['<', '&lt;'],
  ['>', '&gt;'],
  ['"', '&quot;'],
  ["'", '&#39;'],
])
const escapeText = characterReplacer(/[&<>"']/, (character) => ENTITIES.get(character) ?? '')

/** UTF-16 code units that are encoded at once. Encoding one large string takes much longer. */
const CHUNK = 16 * 1024

type Write = (piece: string) => void

/** HTML in which all text is escaped. */
export class Html {
  readonly write: (write: Write) => void

  /** @param write calls its argument with each escaped piece. No piece ends within a character */
  constructor(write: (write: Write) => void) {
    this.write = write
  }

  toString(): string {
    return this.toBuffer().toString()
  }

  toBuffer(): Buffer {
    const chunks: Buffer[] = []
    let text = ''
    this.write((piece) => {
      text += piece
      if (text.length < CHUNK) return
      chunks.push(Buffer.from(text))
      text = ''
    })
    return Buffer.concat([...chunks, Buffer.from(text)])
  }
}

/** Null and undefined are left out. Functions run in turn, so rows are not in memory together. */
type Value = Html | string | number | null | undefined | readonly Value[] | (() => Html)

/** Returns the HTML of a template. Escapes all values except other templates. */
export function html(strings: TemplateStringsArray, ...values: Value[]): Html {
  return new Html((write) => {
    for (let index = 0; index < strings.length; index++) {
      write(strings[index] ?? '')
      writeValue(values[index], write)
    }
  })
}

function writeValue(value: Value, write: Write): void {
  if (typeof value === 'string') write(escapeText(value))
  else if (value instanceof Html) value.write(write)
  else if (typeof value === 'function') value().write(write)
  else if (typeof value === 'number') write(value.toString())
  else if (value) for (const item of value) writeValue(item, write)
}

import { createReadStream } from 'node:fs'

/** What XML 1.0 permits in a document (section 2.2). */
const FORBIDDEN = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu
/** An ampersand, and what makes it a reference. */
const REFERENCE = /&(?:(?:amp|lt|gt|quot|apos|#x([0-9a-fA-F]{1,8})|#(\d{1,8}));)?/g
/** Longest character reference. */
const REFERENCE_LENGTH = 12
/** An XML declaration is within the first bytes. */
const DECLARATION_LENGTH = 200

/**
 * Reads an XML file in the encoding that it declares, UTF-8 by default. Each character that XML
 * forbids becomes a space, also as a reference (`&#27;`), and an ampersand that begins no reference stands for itself: many test
 * runners write names and output of tests as they are.
 *
 * @throws for an unknown encoding
 */
export async function* readXml(file: string): AsyncGenerator<string> {
  let decoder: InstanceType<typeof TextDecoder> | undefined
  let rest = ''
  const chunks: AsyncIterable<Buffer> = createReadStream(file)
  for await (const chunk of chunks) {
    const isFirst = decoder === undefined
    decoder ??= new TextDecoder(encodingOf(chunk))
    const text = rest + decoder.decode(chunk, { stream: true })
    // A reference may go on in the next chunk.
    const last = text.lastIndexOf('&')
    const end = last > text.length - REFERENCE_LENGTH && !text.includes(';', last) ? last : text.length
    rest = text.slice(end)
    const complete = permitted(text.slice(0, end))
    yield isFirst ? complete.trimStart() : complete
  }
  yield permitted(rest + (decoder?.decode() ?? ''))
}

/** Returns the encoding by the first bytes, or the declaration. */
function encodingOf(start: Buffer): string {
  const [first, second] = start
  if (first === 0 || (first === 0xfe && second === 0xff)) return 'utf-16be'
  if (second === 0 || (first === 0xff && second === 0xfe)) return 'utf-16le'
  const text = start.toString('latin1', 0, DECLARATION_LENGTH)
  const declaration = text.includes('<?xml') ? text.slice(0, text.indexOf('?>')) : ''
  const [, name = 'utf-8'] = /\sencoding=["']([\w.:-]+)["']/.exec(declaration) ?? []
  // What can be read byte by byte is not UTF-16, whatever the writer says.
  return /^utf-?16/i.test(name) ? 'utf-8' : name
}

function permitted(text: string): string {
  return text.replace(REFERENCE, permittedReference).replace(FORBIDDEN, ' ')
}

function permittedReference(reference: string, hexadecimal?: string, decimal?: string): string {
  if (reference === '&') return '&amp;'
  if (hexadecimal === undefined && decimal === undefined) return reference
  const code = hexadecimal === undefined ? Number(decimal) : Number.parseInt(hexadecimal, 16)
  return code <= 0x10ffff && !String.fromCodePoint(code).match(FORBIDDEN) ? reference : ' '
}

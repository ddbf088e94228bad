import fc from 'fast-check'
import { formats } from './formats.ts'
import { entries, isObject, type Json, type JsonObject, list, object, typesOf } from './json.ts'

/**
 * Returns values that a schema allows, with lengths at the limits and optional fields in every
 * combination.
 *
 * @throws TypeError for an unsupported schema, which must be added here rather than skipped
 */
export function valid(schema: JsonObject): fc.Arbitrary<Json> {
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum)
  if (schema.const !== undefined) return fc.constant(schema.const)
  const types = typesOf(schema)
  if (types.length === 0) throw new TypeError(`a schema without a type: ${JSON.stringify(schema)}`)
  return fc.oneof(...types.map((type) => ofType(type, schema)))
}

/** Returns one value that a schema allows, always the same. */
export function sampleOf(schema: JsonObject): Json {
  const [value = null] = fc.sample(valid(schema), { numRuns: 1, seed: 1 })
  return value
}

function ofType(type: string, schema: JsonObject): fc.Arbitrary<Json> {
  switch (type) {
    case 'null':
      return fc.constant(null)
    case 'boolean':
      return fc.boolean()
    case 'integer':
      return fc.integer({ min: bound(schema.minimum, -(2 ** 31)), max: bound(schema.maximum, 2 ** 31) })
    case 'number':
      return fc.double({
        min: bound(schema.minimum, -1e9),
        max: bound(schema.maximum, 1e9),
        noNaN: true,
      })
    case 'string':
      return strings(schema)
    case 'array': {
      const minLength = bound(schema.minItems, 0)
      const lengths = { minLength, maxLength: bound(schema.maxItems, minLength + 5) }
      const items = valid(object(schema.items, 'items'))
      return schema.uniqueItems === true ? fc.uniqueArray(items, lengths) : fc.array(items, lengths)
    }
    case 'object':
      return objects(schema)
    default:
      throw new TypeError(`unknown type ${type}`)
  }
}

function objects(schema: JsonObject): fc.Arbitrary<JsonObject> {
  const fields = entries(schema.properties).map(
    ([name, field]) => [name, valid(object(field, name))] as const,
  )
  const requiredKeys = list(schema.required).filter((name) => typeof name === 'string')
  const records = fc.record(Object.fromEntries(fields), { requiredKeys, noNullPrototype: true })
  return records.map((record) => {
    const lacking = dependents(schema).filter(([, others]) => others.some((other) => !(other in record)))
    return Object.fromEntries(Object.entries(record).filter(([name]) => !lacking.some(([of]) => of === name)))
  })
}

/** Returns the fields of an object that require others, and those others. */
export function dependents(schema: JsonObject): [name: string, others: string[]][] {
  return entries(schema.dependentRequired).map(([name, others]) => [name, list(others).map(String)])
}

function strings(schema: JsonObject): fc.Arbitrary<string> {
  if (typeof schema.format === 'string') return formatted(schema.format, schema)
  const { pattern, fits } = rulesOf(schema)
  const minLength = bound(schema.minLength, 0)
  const maxLength = bound(schema.maxLength, bound(schema['x-max-bytes'], 300))
  const maxBytes = bound(schema['x-max-bytes'], Number.POSITIVE_INFINITY)
  const drawn = isOfCharacters(schema)
    ? withLength(minLength, maxLength, (length) => {
        const units = character.filter(fits)
        const texts = fc.array(units, { minLength: length, maxLength: length }).map((parts) => parts.join(''))
        return texts.map((text) => startOf(text, maxBytes))
      })
    : fc.stringMatching(pattern ?? /^/).filter(fits)
  return drawn.filter(
    (value) => Buffer.byteLength(value) <= maxBytes && inLength(value, minLength, maxLength),
  )
}

/** Returns the rules of a schema on the characters of a string, without lengths and formats. */
export function rulesOf(schema: JsonObject): { pattern: RegExp | null; fits(value: string): boolean } {
  const compile = (pattern: Json | undefined) =>
    typeof pattern === 'string' ? new RegExp(pattern, 'u') : null
  const pattern = compile(schema.pattern)
  const excluded = isObject(schema.not) ? compile(schema.not.pattern) : null
  const fits = (value: string) =>
    (pattern?.test(value) ?? true) &&
    !(excluded?.test(value) ?? false) &&
    !(schema['x-well-formed'] === true && /\p{Cs}/u.test(value))
  return { pattern, fits }
}

/**
 * Returns whether the pattern of a schema, if it has one, allows or excludes each character
 * wherever it stands.
 */
export function isOfCharacters({ pattern }: JsonObject): boolean {
  return typeof pattern !== 'string' || /^\^\[[^\]]*\][*+]?\$$/.test(pattern)
}

/** Draws lengths that are short, long, and exactly at each limit. */
function withLength(min: number, max: number, make: (length: number) => fc.Arbitrary<string>) {
  return fc
    .oneof(
      { weight: 2, arbitrary: fc.constantFrom(min, max) },
      { weight: 1, arbitrary: fc.constantFrom(Math.min(min + 1, max), Math.max(max - 1, min)) },
      { weight: 5, arbitrary: fc.integer({ min, max: Math.min(max, min + 40) }) },
      { weight: 1, arbitrary: fc.integer({ min, max }) },
    )
    .chain(make)
}

function formatted(name: string, schema: JsonObject): fc.Arbitrary<string> {
  const format = formats[name]
  if (!format) throw new TypeError(`unknown format ${name}: add it to formats.ts`)
  if ('valid' in format) return fc.constantFrom(...format.valid)
  const room = bound(schema['x-max-bytes'], bound(schema.maxLength, 300)) - format.prefix.length
  const units = fc.constantFrom(...format.filling)
  return withLength(0, room, (length) =>
    fc
      .array(units, { minLength: length, maxLength: length })
      .map((parts) => format.prefix + fill(parts.join(''), length)),
  ).filter((value) => format.test(value))
}

/** Cuts a text to `bytes` without splitting characters, and pads it with an ASCII letter. */
function fill(text: string, bytes: number): string {
  const result = startOf(text, bytes)
  return result + 'a'.repeat(bytes - Buffer.byteLength(result))
}

/** Returns as many characters from the start of a text as fit into `bytes`. */
function startOf(text: string, bytes: number): string {
  let result = ''
  let size = 0
  for (const unit of text) {
    size += Buffer.byteLength(unit)
    if (size > bytes) break
    result += unit
  }
  return result
}

/**
 * Any code point that is not a surrogate. The library's own unit keeps a map of all of them, which
 * takes a second to fill.
 */
export const codePoint: fc.Arbitrary<string> = fc
  .integer({ min: 0, max: 0x10_ffff - 0x800 })
  .map((index) => String.fromCodePoint(index < 0xd800 ? index : index + 0x800))

/** Any code point, more often one that tends to expose bugs. */
export const character: fc.Arbitrary<string> = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: 0x20, max: 0x7e }).map((point) => String.fromCodePoint(point)) },
  { weight: 2, arbitrary: codePoint },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      ...[
        '\u0001',
        '\t',
        '\n',
        '\r',
        '\u001f',
        '\u007f',
        '\u0080',
        '\u0085',
        '\u00a0',
        '"',
        '\\',
        '/',
        '<',
        '&',
      ],
      ...['ß', 'İ', 'ı', 'é', 'e\u0301'.slice(1), 'Å', 'ﬁ', '\u0300', '\u0338', '\u20e3', '\u0627', '\u202e'],
      ...['\u200b', '\u200d', '\u2028', '\u2029', '\ufeff', '\ufffd', '\ufffe', '\uffff', '\ue000', '\ud7ff'],
      ...[
        '😀',
        '👩',
        '🏽',
        '🇩',
        '🇪',
        '𝒳',
        '𠀀',
        '\u{10000}',
        '\u{1f9d1}',
        '\u{e0061}',
        '\u{10fffd}',
        '\u{10ffff}',
      ],
    ),
  },
)

function inLength(value: string, min: number, max: number): boolean {
  const { length } = [...value]
  return length >= min && length <= max
}

export function bound(value: Json | undefined, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise
}

/** Returns the value with the schema's defaults. */
export function withDefaults(schema: JsonObject, value: JsonObject): JsonObject {
  const defaults = entries(schema.properties).flatMap(([name, field]): [string, Json][] =>
    isObject(field) && field.default !== undefined ? [[name, field.default]] : [],
  )
  return { ...Object.fromEntries(defaults), ...value }
}

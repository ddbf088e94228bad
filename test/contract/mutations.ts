import fc from 'fast-check'
import { formats } from './formats.ts'
import { entries, isObject, type Json, type JsonObject, list, object, points, typesOf } from './json.ts'
import { bound, character, codePoint, dependents, isOfCharacters, rulesOf, valid } from './values.ts'

/** The rule that no URL can break, since it cannot contain a lone surrogate. */
export const ILL_FORMED = 'a lone surrogate'

/** One way to break one rule of a schema. */
export interface Mutation {
  /** Field and rule, for messages. */
  name: string
  /** The name that the error message must contain. */
  field: string
  /** Bodies that break this rule only. */
  broken: fc.Arbitrary<Json>
}

const SAMPLES: Readonly<Record<string, readonly Json[]>> = {
  null: [null],
  boolean: [true, false],
  number: [0, 1, -1.5, 1e300],
  integer: [0, 7],
  string: ['', 'success', '1', 'null'],
  array: [[], ['success'], [[]]],
  object: [{}, { state: 'success' }],
}

/** Returns a mutation for every rule of an object's schema. */
export function mutationsOf(schema: JsonObject): Mutation[] {
  const whole = wrongTypes(typesOf(schema)).map(([type, values]) => ({
    name: `a body of type ${type}`,
    field: 'object',
    broken: fc.constantFrom(...values),
  }))
  const missing = list(schema.required).map((name) => ({
    name: `${name} missing`,
    field: String(name),
    broken: bodies(schema).map((body) => without(body, String(name))),
  }))
  const alone = dependents(schema).flatMap(([name, others]) =>
    others.map((other) => {
      const lacking = dependents(schema).filter(([of, needed]) => of !== name && needed.includes(other))
      return {
        name: `${name} without ${other}`,
        field: name,
        broken: fc
          .tuple(bodies(schema), valid(object(object(schema.properties, 'properties')[name], name)))
          .map(([body, value]) =>
            lacking.reduce((rest, [of]) => without(rest, of), without({ ...body, [name]: value }, other)),
          ),
      }
    }),
  )
  const fields = entries(schema.properties).flatMap(([name, field]) =>
    wrongValues(object(field, name)).map(([rule, values]) => ({
      name: `${name}: ${rule}`,
      field: name,
      broken: fc.tuple(bodies(schema), values).map(([body, value]) => ({ ...body, [name]: value })),
    })),
  )
  return [...whole, ...missing, ...alone, ...fields]
}

/** Returns bodies that the schema allows. */
export function bodies(schema: JsonObject): fc.Arbitrary<JsonObject> {
  return valid(schema).map((body) => object(body, 'a body'))
}

/** Returns invalid values for each rule of a schema. */
export function wrongValues(schema: JsonObject): [rule: string, values: fc.Arbitrary<Json>][] {
  const wrong: [string, fc.Arbitrary<Json>][] = wrongTypes(typesOf(schema)).map(([type, values]) => [
    `type ${type}`,
    fc.constantFrom(...values),
  ])
  const allowed = schema.enum
  if (Array.isArray(allowed)) {
    wrong.push(['not in the enum', unlisted(allowed)])
    return wrong
  }
  if (typesOf(schema).includes('string')) wrong.push(...wrongStrings(schema))
  if (typeof schema.minimum === 'number') wrong.push(['too small', fc.constant(schema.minimum - 1)])
  if (typeof schema.maximum === 'number') wrong.push(['too large', fc.constant(schema.maximum + 1)])
  if (typeof schema.minItems === 'number' && schema.minItems > 0) {
    wrong.push(['too few items', itemsOf(schema, schema.minItems - 1)])
  }
  if (typeof schema.maxItems === 'number')
    wrong.push(['too many items', itemsOf(schema, schema.maxItems + 1)])
  return wrong
}

function wrongStrings(schema: JsonObject): [string, fc.Arbitrary<Json>][] {
  const wrong: [string, fc.Arbitrary<Json>][] = []
  const { pattern, not, format } = schema
  const minLength = bound(schema.minLength, 0)
  const maxBytes = schema['x-max-bytes']
  if (minLength > 0) wrong.push(['too short', ofLength(schema, minLength - 1)])
  // A limit in bytes that is not larger applies first.
  if (typeof schema.maxLength === 'number' && bound(maxBytes, Number.POSITIVE_INFINITY) > schema.maxLength) {
    wrong.push(['one character too long', ofLength(schema, schema.maxLength + 1)])
    wrong.push(['far too long', fc.constant('x'.repeat(schema.maxLength * 3))])
  }
  if (typeof maxBytes === 'number') wrong.push(['one byte too long', tooManyBytes(schema, maxBytes + 1)])
  if (typeof format === 'string') {
    const known = formats[format]
    if (!known) throw new TypeError(`unknown format ${format}: add it to formats.ts`)
    wrong.push([`not a ${format}`, fc.constantFrom(...known.wrong)])
  }
  if (typeof pattern === 'string') wrong.push(['against the pattern', unmatching(pattern, schema)])
  if (isObject(not)) wrong.push(['an excluded pattern', excluded(String(not.pattern), schema)])
  if (schema['x-well-formed'] === true) wrong.push([ILL_FORMED, illFormed(schema)])
  return wrong
}

/**
 * Returns strings of `length` code points that break no other rule, unless the pattern has places
 * for characters.
 */
function ofLength(schema: JsonObject, length: number): fc.Arbitrary<string> {
  const units = isOfCharacters(schema) ? character.filter(rulesOf(schema).fits) : codePoint
  return fc.array(units, { minLength: length, maxLength: length }).map((parts) => parts.join(''))
}

/** Returns strings that match the excluded pattern and the required one. */
function excluded(pattern: string, schema: JsonObject): fc.Arbitrary<string> {
  const [wanted, unwanted] = [String(schema.pattern ?? ''), new RegExp(pattern, 'u')]
  const matching = fc.stringMatching(unwanted)
  return fc
    .oneof(
      matching,
      fc.tuple(fc.stringMatching(new RegExp(wanted, 'u')), matching).map((parts) => parts.join('')),
    )
    .filter((value) => unwanted.test(value) && new RegExp(wanted, 'u').test(value))
    .filter((value) => points(value) <= bound(schema.maxLength, 300))
}

/** Returns strings with a lone surrogate. */
function illFormed(schema: JsonObject): fc.Arbitrary<string> {
  const text = fc.string({ unit: 'grapheme-ascii', maxLength: Math.min(20, bound(schema.maxLength, 20) - 1) })
  return fc
    .tuple(text, fc.constantFrom('\ud800', '\udbff', '\udc00', '\udfff'))
    .map(([before, half]) => before + half)
}

/**
 * Returns strings of `bytes` bytes, in ASCII and in longer characters, of which there are fewer
 * than the limit.
 */
function tooManyBytes(schema: JsonObject, bytes: number): fc.Arbitrary<string> {
  const format = formats[String(schema.format)]
  const prefix = format && 'prefix' in format ? format.prefix : ''
  const room = bytes - prefix.length
  return fc.constantFrom('a', 'é', '漢', '😀').map((unit) => {
    const count = Math.floor(room / Buffer.byteLength(unit))
    return prefix + unit.repeat(count) + 'a'.repeat(room - count * Buffer.byteLength(unit))
  })
}

/** Returns strings of an allowed length that do not match the pattern. */
function unmatching(pattern: string, schema: JsonObject): fc.Arbitrary<string> {
  const expression = new RegExp(pattern, 'u')
  const min = bound(schema.minLength, 0)
  const max = bound(schema.maxLength, 300)
  const odd = fc.constantFrom('\u0000', 'x', ' ', '/', '.', 'é', '-', '😀', '')
  const text = fc.string({ unit: 'grapheme', maxLength: 20 })
  return fc
    .tuple(text, odd, text)
    .map((parts) => parts.join(''))
    .filter((value) => !expression.test(value) && points(value) >= min && points(value) <= max)
}

function unlisted(allowed: readonly Json[]): fc.Arbitrary<Json> {
  const names = allowed.filter((value) => typeof value === 'string')
  const near = names.flatMap((name) => [
    name.toUpperCase(),
    `${name} `,
    ` ${name}`,
    `${name}\u0000`,
    name.slice(0, -1),
    `${name}s`,
  ])
  return fc
    .oneof(fc.constantFrom('', ...near), fc.string({ unit: 'grapheme', maxLength: 300 }))
    .filter((value) => !allowed.includes(value))
}

function itemsOf(schema: JsonObject, length: number): fc.Arbitrary<Json> {
  return fc.array(valid(object(schema.items, 'items')), { minLength: length, maxLength: length })
}

function wrongTypes(allowed: readonly string[]): [string, Json[]][] {
  return Object.entries(SAMPLES).flatMap(([type, values]): [string, Json[]][] => {
    const fits = allowed.includes(type) || (type === 'integer' && allowed.includes('number'))
    const wrong = allowed.includes('integer') ? values.filter((value) => !Number.isInteger(value)) : values
    return fits || wrong.length === 0 ? [] : [[type, [...wrong]]]
  })
}

function without(body: JsonObject, name: string): JsonObject {
  return Object.fromEntries(Object.entries(body).filter(([key]) => key !== name))
}

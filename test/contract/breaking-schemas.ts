import { entries, isObject, type Json, type JsonObject, list, object, typesOf } from './json.ts'
import { dependents } from './values.ts'

/** The direction of a value: clients send requests and read answers. */
type Direction = 'request' | 'answer'

/**
 * Returns the breaking changes. Requests may allow more values, answers fewer; a new field must be
 * optional in a request.
 */
export function ofSchema(
  before: JsonObject,
  after: JsonObject,
  direction: Direction,
  where: string,
): string[] {
  const isRequest = direction === 'request'
  const [wide, narrow] = isRequest ? [before, after] : [after, before]
  const found = narrowed(wide, narrow).map((rule) => `${where}: ${isRequest ? 'narrower' : 'wider'} ${rule}`)
  if (isRequest && before.additionalProperties !== false && after.additionalProperties === false)
    found.push(`${where}: unknown fields are now rejected`)
  const had = list(before.required)
  const has = list(after.required)
  if (isRequest)
    found.push(
      ...has.filter((name) => !had.includes(name)).map((name) => `${where}: ${name} is now required`),
    )
  else
    found.push(
      ...had.filter((name) => !has.includes(name)).map((name) => `${where}: ${name} is now optional`),
    )
  if (isRequest) found.push(...newDependencies(before, after).map((rule) => `${where}: ${rule}`))
  for (const [name, field] of entries(before.properties)) {
    const now = isObject(after.properties) ? after.properties[name] : undefined
    if (now === undefined) found.push(`${where}: ${name} was removed`)
    else found.push(...ofSchema(object(field, name), object(now, name), direction, `${where}.${name}`))
  }
  if (before.default !== undefined && JSON.stringify(before.default) !== JSON.stringify(after.default)) {
    found.push(`${where}: the default changed`)
  }
  if (isObject(before.items))
    found.push(...ofSchema(before.items, object(after.items, where), direction, `${where}[]`))
  return found
}

/** Returns the fields of `before` that now require other fields. */
function newDependencies(before: JsonObject, after: JsonObject): string[] {
  const former = new Map(dependents(before))
  return dependents(after)
    .filter(([name]) => isObject(before.properties) && name in before.properties)
    .flatMap(([name, others]) =>
      others
        .filter((other) => !former.get(name)?.includes(other))
        .map((other) => `${name} now requires ${other}`),
    )
}

const LOWER = ['minLength', 'minimum', 'minItems']
const UPPER = ['maxLength', 'maximum', 'maxItems', 'x-max-bytes']
/** Rules that are compared by equality only. */
const OPAQUE = ['const', 'uniqueItems']
/** Also compared by equality, unless a combination is listed in `SAME_TEXTS`. */
const TEXT = ['pattern', 'not', 'x-well-formed', 'format']

/**
 * Equivalent rules on text. A test verifies that both sides of a pair allow the same values.
 */
export const SAME_TEXTS: readonly (readonly [before: JsonObject, after: JsonObject])[] = [
  [{ pattern: '^[^\\u0000\\p{Cs}]*$' }, { pattern: '^[^\\x00]*$', 'x-well-formed': true }],
  [
    { pattern: '^(?!\\.{1,2}$)(?!.*\\.(?:[gG][iI][tT]|[lL][oO][cC][kK])$)[A-Za-z0-9._\\-]+$' },
    { pattern: '^[A-Za-z0-9._-]+$', not: { pattern: '^\\.\\.?$|\\.(?:[gG][iI][tT]|[lL][oO][cC][kK])$' } },
  ],
  [{ format: 'http-url' }, { format: 'http-url', pattern: '^[hH][tT][tT][pP][sS]?://' }],
]

/** Returns the rules of `narrow` that exclude values of `wide`. */
function narrowed(wide: JsonObject, narrow: JsonObject): string[] {
  const types = typesOf(wide).filter((type) => !typesOf(narrow).includes(type))
  const found = types.map((type) => `type: ${type}`)
  if (Array.isArray(narrow.enum)) {
    const allowed = narrow.enum
    if (!Array.isArray(wide.enum)) found.push('enum')
    else found.push(...wide.enum.filter((value) => !allowed.includes(value)).map((value) => `enum: ${value}`))
  }
  for (const key of LOWER)
    if (number(narrow[key], 0) > number(wide[key], 0)) found.push(`${key}: ${narrow[key]}`)
  for (const key of UPPER) {
    if (number(narrow[key], UNLIMITED) < largest(wide, key)) found.push(`${key}: ${narrow[key]}`)
  }
  for (const key of sameTexts(wide, narrow) ? OPAQUE : [...OPAQUE, ...TEXT]) {
    const [rule, former] = [JSON.stringify(narrow[key]), JSON.stringify(wide[key])]
    if (rule !== undefined && rule !== former) found.push(`${key}: ${rule}`)
  }
  return found
}

const UNLIMITED = Number.POSITIVE_INFINITY

/** Returns the upper limit. A text has at most as many characters as bytes. */
function largest(schema: JsonObject, key: string): number {
  const limit = number(schema[key], UNLIMITED)
  return key === 'maxLength' ? Math.min(limit, number(schema['x-max-bytes'], UNLIMITED)) : limit
}

function sameTexts(one: JsonObject, other: JsonObject): boolean {
  const [first, second] = [textRules(one), textRules(other)]
  return SAME_TEXTS.some((pair) => {
    const [before, after] = pair.map(textRules)
    return (first === before && second === after) || (first === after && second === before)
  })
}

function textRules(schema: JsonObject): string {
  return JSON.stringify(TEXT.map((key) => schema[key] ?? null))
}

function number(value: Json | undefined, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise
}

import { entries, isObject, type Json, type JsonObject, list, object, typesOf } from './json.ts'

/** In which direction a value travels: a client sends a request and reads an answer. */
type Direction = 'request' | 'answer'

/** The set of values may grow in a request and shrink in an answer; a field may come, but never as a new duty. */
export function ofSchema(
  before: JsonObject,
  after: JsonObject,
  direction: Direction,
  where: string,
): string[] {
  const asked = direction === 'request'
  const [wide, narrow] = asked ? [before, after] : [after, before]
  const found = narrowed(wide, narrow).map((rule) => `${where}: ${asked ? 'narrower' : 'wider'} ${rule}`)
  if (asked && before.additionalProperties !== false && after.additionalProperties === false)
    found.push(`${where}: unknown fields are refused now`)
  const had = list(before.required)
  const has = list(after.required)
  if (asked)
    found.push(
      ...has.filter((name) => !had.includes(name)).map((name) => `${where}: ${name} is required now`),
    )
  else
    found.push(
      ...had.filter((name) => !has.includes(name)).map((name) => `${where}: ${name} may be missing now`),
    )
  for (const [name, field] of entries(before.properties)) {
    const now = isObject(after.properties) ? after.properties[name] : undefined
    if (now === undefined) found.push(`${where}: ${name} is gone`)
    else found.push(...ofSchema(object(field, name), object(now, name), direction, `${where}.${name}`))
  }
  if (before.default !== undefined && JSON.stringify(before.default) !== JSON.stringify(after.default)) {
    found.push(`${where}: another default`)
  }
  if (isObject(before.items))
    found.push(...ofSchema(before.items, object(after.items, where), direction, `${where}[]`))
  return found
}

const LOWER = ['minLength', 'minimum', 'minItems']
const UPPER = ['maxLength', 'maximum', 'maxItems', 'x-max-bytes']
/** Two of these can only be compared for being the same. */
const OPAQUE = ['const', 'uniqueItems']
/** So can these, but several of them together may say what another one says. */
const TEXT = ['pattern', 'not', 'x-well-formed', 'format']

/**
 * Rules on text that were rewritten and allow the same values as before; a test compares them. Only what is known here
 * is compared by its meaning.
 */
export const SAME_TEXTS: readonly (readonly [before: JsonObject, after: JsonObject])[] = [
  [{ pattern: '^[^\\u0000\\p{Cs}]*$' }, { pattern: '^[^\\x00]*$', 'x-well-formed': true }],
  [
    { pattern: '^(?!\\.{1,2}$)(?!.*\\.(?:[gG][iI][tT]|[lL][oO][cC][kK])$)[A-Za-z0-9._\\-]+$' },
    { pattern: '^[A-Za-z0-9._-]+$', not: { pattern: '^\\.\\.?$|\\.(?:[gG][iI][tT]|[lL][oO][cC][kK])$' } },
  ],
  [{ format: 'http-url' }, { format: 'http-url', pattern: '^[hH][tT][tT][pP][sS]?://' }],
  [{ format: 'date-time', pattern: '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}Z$' }, { format: 'date-time' }],
]

/** The rules by which `narrow` leaves out what `wide` has. */
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
    if (number(narrow[key], MOST) < largest(wide, key)) found.push(`${key}: ${narrow[key]}`)
  }
  for (const key of sameTexts(wide, narrow) ? OPAQUE : [...OPAQUE, ...TEXT]) {
    const [rule, former] = [JSON.stringify(narrow[key]), JSON.stringify(wide[key])]
    if (rule !== undefined && rule !== former) found.push(`${key}: ${rule}`)
  }
  return found
}

const MOST = Number.POSITIVE_INFINITY

/** A text has no more characters than bytes. */
function largest(schema: JsonObject, key: string): number {
  const limit = number(schema[key], MOST)
  return key === 'maxLength' ? Math.min(limit, number(schema['x-max-bytes'], MOST)) : limit
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

import { entries, isObject, type Json, type JsonObject, list, object, typesOf } from './json.ts'
import type { Contract, Operation, Reply } from './spec.ts'

/** In which direction a value travels: a client sends a request and reads an answer. */
type Direction = 'request' | 'answer'

/**
 * What a client that was built for `before` can no longer rely on in `after`: less is accepted than was, or more is
 * answered than was declared. Each is one sentence; none: nothing breaks.
 */
export function breakingChanges(before: Contract, after: Contract): string[] {
  return before.operations.flatMap((operation) => {
    const now = after.operations.find(({ id }) => id === operation.id)
    return now ? ofOperation(operation, now) : [`${operation.id} is gone`]
  })
}

/** Whether the new version says that clients may break: another major number (Semantic Versioning, 8). */
export function allowsBreaking(before: Contract, after: Contract): boolean {
  return Number.parseInt(after.version, 10) > Number.parseInt(before.version, 10)
}

function ofOperation(before: Operation, after: Operation): string[] {
  const { id } = before
  const found: string[] = []
  if (before.method !== after.method || before.path !== after.path) {
    found.push(`${id} moved from ${before.method} ${before.path} to ${after.method} ${after.path}`)
  }
  if (before.anonymous && !after.anonymous) found.push(`${id} now needs a credential`)
  if (before.access === 'read' && after.access !== 'read')
    found.push(`${id} now needs ${after.access} access`)
  for (const { name, schema } of after.parameters) {
    const former = before.parameters.find((parameter) => parameter.name === name)
    found.push(
      ...(former
        ? ofSchema(former.schema, schema, 'request', `${id}: ${name}`)
        : [`${id}: new parameter ${name}`]),
    )
  }
  for (const { name } of before.parameters) {
    if (!after.parameters.some((parameter) => parameter.name === name))
      found.push(`${id}: parameter ${name} is gone`)
  }
  return [...found, ...ofBody(before, after), ...ofReplies(before, after)]
}

function ofBody({ id, body: before }: Operation, { body: after }: Operation): string[] {
  if (!after) return before ? [`${id}: takes no body any more`] : []
  if (!before) return [`${id}: now needs a body`]
  const found = ofSchema(before.schema, after.schema, 'request', `${id}: body`)
  if (after.mediaType !== before.mediaType) found.push(`${id}: bodies are ${after.mediaType} now`)
  if (after.limit < before.limit)
    found.push(`${id}: bodies are at most ${after.limit} bytes, not ${before.limit}`)
  return found
}

function ofReplies({ id, replies: before }: Operation, { replies: after }: Operation): string[] {
  const gone = [...before].flatMap(([status, reply]) => {
    const now = after.get(status)
    return now ? ofReply(reply, now, `${id}: ${status}`) : [`${id}: ${status} is gone`]
  })
  const added = [...after.keys()].filter((status) => !before.has(status))
  return [...gone, ...added.map((status) => `${id}: ${status} is new, and no client knows it`)]
}

function ofReply(before: Reply, after: Reply, where: string): string[] {
  const found = before.headers.flatMap(({ name, required, schema }) => {
    const now = after.headers.find((header) => header.name === name)
    if (!now) return [`${where}: header ${name} is gone`]
    const optional = required && !now.required ? [`${where}: header ${name} may be missing now`] : []
    return [...optional, ...ofSchema(schema, now.schema, 'answer', `${where}: header ${name}`)]
  })
  if (!before.content || !after.content) {
    if (before.content !== after.content)
      found.push(`${where}: ${after.content ? 'has a body now' : 'has no body any more'}`)
    return found
  }
  if (before.content.mediaType !== after.content.mediaType)
    found.push(`${where}: is ${after.content.mediaType} now`)
  return [...found, ...ofSchema(before.content.schema, after.content.schema, 'answer', where)]
}

/** The set of values may grow in a request and shrink in an answer; a field may come, but never as a new duty. */
function ofSchema(before: JsonObject, after: JsonObject, direction: Direction, where: string): string[] {
  const asked = direction === 'request'
  const [wide, narrow] = asked ? [before, after] : [after, before]
  const found = narrowed(wide, narrow).map((rule) => `${where}: ${asked ? 'narrower' : 'wider'} ${rule}`)
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
const OPAQUE = ['pattern', 'format', 'const', 'uniqueItems']

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
    const most = Number.POSITIVE_INFINITY
    if (number(narrow[key], most) < number(wide[key], most)) found.push(`${key}: ${narrow[key]}`)
  }
  for (const key of OPAQUE) {
    if (narrow[key] !== undefined && narrow[key] !== wide[key]) found.push(`${key}: ${narrow[key]}`)
  }
  return found
}

function number(value: Json | undefined, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise
}

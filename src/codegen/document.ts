/** JSON as the contract holds it. */
export type JsonValue = string | number | boolean | null | JsonValue[] | JsonObject
export interface JsonObject {
  [key: string]: JsonValue
}

/** The contract says something that the generator does not understand or the server cannot serve. */
export class SpecError extends Error {
  override name = 'SpecError'
}

/** Returns `value`. @throws SpecError unless it is a JSON object. */
export function object(value: unknown, where: string): JsonObject {
  if (isObject(value)) return value
  throw new SpecError(`${where} is not an object`)
}

/** Returns `value`. @throws SpecError unless it is a string. */
export function text(value: JsonValue | undefined, where: string): string {
  if (typeof value !== 'string') throw new SpecError(`${where} is not a string`)
  return value
}

/** Returns the list, or an empty one where there is none. */
export function list(value: JsonValue | undefined): JsonValue[] {
  return Array.isArray(value) ? value : []
}

/** Returns the names and values of an object, none where it is missing. @throws SpecError unless it is an object. */
export function entries(value: JsonValue | undefined, where: string): [string, JsonValue][] {
  return value === undefined ? [] : Object.entries(object(value, where))
}

/** @throws SpecError naming the first key that is not among `known`. */
export function refuseUnknown(holder: JsonObject, known: readonly string[], where: string): void {
  for (const key of Object.keys(holder)) {
    if (!known.includes(key)) throw new SpecError(`${where}: the generator does not know "${key}"`)
  }
}

/** Follows references within the document to the object itself. @throws SpecError for one that leads elsewhere. */
export function resolve(document: JsonObject, value: JsonValue): JsonObject {
  const holder = object(value, 'a component')
  if (holder.$ref === undefined) return holder
  const ref = text(holder.$ref, '$ref')
  if (!ref.startsWith('#/')) throw new SpecError(`${ref}: only references within the document are supported`)
  refuseUnknown(holder, ['$ref', 'summary', 'description'], `a reference to ${ref}`)
  let target: JsonValue = document
  for (const step of ref.slice(2).split('/')) target = object(target, ref)[step] ?? null
  return resolve(document, object(target, ref))
}

/** Whatever the parser gives is JSON: YAML without tags of its own. */
function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A JSON value in the contract. */
export type JsonValue = string | number | boolean | null | JsonValue[] | JsonObject
export interface JsonObject {
  [key: string]: JsonValue
}

/** The component schemas by name. */
export type Schemas = Readonly<Record<string, JsonObject>>

/**
 * The contract contains something that the generator does not understand or the server cannot
 * serve.
 */
export class SpecError extends Error {
  override readonly name = 'SpecError'
}

/** Returns `value`. @throws SpecError unless it is a JSON object */
export function object(value: unknown, where: string): JsonObject {
  if (isObject(value)) return value
  throw new SpecError(`${where} is not an object`)
}

/** Returns `value`. @throws SpecError unless it is a string */
export function text(value: JsonValue | undefined, where: string): string {
  if (typeof value !== 'string') throw new SpecError(`${where} is not a string`)
  return value
}

/** Returns `value` if it is an array, otherwise an empty one. */
export function list(value: JsonValue | undefined): JsonValue[] {
  return Array.isArray(value) ? value : []
}

/**
 * Returns the entries of an object, or none if it is missing.
 *
 * @throws SpecError if it is not an object
 */
export function entries(value: JsonValue | undefined, where: string): [string, JsonValue][] {
  return value === undefined ? [] : Object.entries(object(value, where))
}

/** Checks the keys of an object. @throws SpecError naming the first key that is not in `known` */
export function refuseUnknown(holder: JsonObject, known: readonly string[], where: string): void {
  for (const key of Object.keys(holder)) {
    if (!known.includes(key)) throw new SpecError(`${where}: the generator does not know "${key}"`)
  }
}

/** Resolves references within the document. @throws SpecError for a reference to anything else */
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

/** The parser returns JSON values only: YAML without custom tags. */
function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

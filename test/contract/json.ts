/** JSON as a contract holds it. */
export type Json = string | number | boolean | null | Json[] | JsonObject
export interface JsonObject {
  [key: string]: Json
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** @throws TypeError naming `where` unless `value` is an object */
export function object(value: unknown, where: string): JsonObject {
  if (isObject(value)) return value
  throw new TypeError(`${where} is not an object`)
}

/** @throws TypeError naming `where` unless `value` is a string */
export function text(value: unknown, where: string): string {
  if (typeof value === 'string') return value
  throw new TypeError(`${where} is not a string`)
}

/** The list, or an empty one where there is none. */
export function list(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : []
}

/** The object's entries, or none where it is missing. */
export function entries(value: Json | undefined): [string, Json][] {
  return isObject(value) ? Object.entries(value) : []
}

/** The types that a schema allows; none: all. */
export function typesOf(schema: JsonObject): string[] {
  return [schema.type ?? []].flat().filter((type) => typeof type === 'string')
}

/** Length in Unicode code points. */
export function points(value: string): number {
  return [...value].length
}

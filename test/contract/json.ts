/** A JSON value. */
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

/** Returns the list, or an empty one if it is missing. */
export function list(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : []
}

/** Returns the entries of an object, or none if it is missing. */
export function entries(value: Json | undefined): [string, Json][] {
  return isObject(value) ? Object.entries(value) : []
}

/** Returns the types that a schema allows; an empty list allows all. */
export function typesOf(schema: JsonObject): string[] {
  return [schema.type ?? []].flat().filter((type) => typeof type === 'string')
}

/** Returns the length in Unicode code points. */
export function points(value: string): number {
  return [...value].length
}

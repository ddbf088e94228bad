/** JSON as the contract holds it. */
export type JsonValue = string | number | boolean | null | JsonValue[] | JsonObject
export interface JsonObject {
  [key: string]: JsonValue
}

/** The contract says something that the generator does not understand. */
export class SpecError extends Error {
  override name = 'SpecError'
}

const REF = '#/components/schemas/'

/** Schema keywords whose meaning validators, serializers and types all carry. */
const SCHEMA_KEYWORDS = [
  '$ref',
  'type',
  'enum',
  'const',
  'format',
  'pattern',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'minItems',
  'maxItems',
  'uniqueItems',
  'items',
  'properties',
  'required',
  'additionalProperties',
  'default',
  'title',
  'description',
  'examples',
  'deprecated',
  'x-max-bytes',
  'x-rule',
]
const FORMATS = ['uuid', 'date-time', 'http-url']

/** @throws SpecError unless `value` is a JSON object. */
export function object(value: JsonValue | undefined, where: string): JsonObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new SpecError(`${where} is not an object`)
  return value
}

/** @throws SpecError unless `value` is a string. */
export function text(value: JsonValue | undefined, where: string): string {
  if (typeof value !== 'string') throw new SpecError(`${where} is not a string`)
  return value
}

/** @throws SpecError naming the first key that is not among `known`. */
export function refuseUnknown(holder: JsonObject, known: readonly string[], where: string): void {
  for (const key of Object.keys(holder)) {
    if (!known.includes(key)) throw new SpecError(`${where}: the generator does not know "${key}"`)
  }
}

/**
 * Walks a schema and everything below it.
 *
 * @throws SpecError for a keyword, a format or a reference that the generator does not know.
 */
export function checkSchema(schema: JsonObject, where: string): void {
  refuseUnknown(schema, SCHEMA_KEYWORDS, where)
  if (schema.$ref !== undefined && !text(schema.$ref, where).startsWith(REF)) {
    throw new SpecError(`${where}: ${schema.$ref} is no reference to a component schema`)
  }
  if (schema.format !== undefined && !FORMATS.includes(text(schema.format, where))) {
    throw new SpecError(`${where}: the generator does not know the format "${schema.format}"`)
  }
  for (const [name, property] of Object.entries(object(schema.properties ?? {}, where))) {
    checkSchema(object(property, `${where}.${name}`), `${where}.${name}`)
  }
  if (schema.items !== undefined) checkSchema(object(schema.items, `${where}[]`), `${where}[]`)
  if (typeof schema.additionalProperties === 'object') {
    throw new SpecError(`${where}: additionalProperties is true or false`)
  }
}

/** Name of the component schema that `schema` refers to, or null when it stands by itself. */
export function refName(schema: JsonObject): string | null {
  return typeof schema.$ref === 'string' ? schema.$ref.slice(REF.length) : null
}

/** The same JSON with references as Ajv and Fastify resolve them: by the `$id` of a shared schema. */
export function withSchemaIds(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(withSchemaIds)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) =>
      key === '$ref' && typeof inner === 'string'
        ? [key, `${inner.slice(REF.length)}#`]
        : [key, withSchemaIds(inner)],
    ),
  )
}

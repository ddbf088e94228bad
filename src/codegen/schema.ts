import { entries, type JsonObject, list, object, type Schemas, SpecError } from './document.ts'

/** How a reference to a component schema begins. */
export const COMPONENT = '#/components/schemas/'

/** Returns whether the schema allows null or another schema. */
export function isNullable(schema: JsonObject): boolean {
  return schema.oneOf !== undefined
}

/**
 * Returns the schema of the values other than null.
 *
 * @throws SpecError for any other use of oneOf
 */
export function nullableOf(schema: JsonObject, where: string): JsonObject {
  const [inner, nothing, ...others] = list(schema.oneOf)
  const knownKeys = ['oneOf', 'description', 'title', 'deprecated', 'examples']
  const isNull = nothing !== undefined && JSON.stringify(nothing) === '{"type":"null"}'
  if (
    inner === undefined ||
    !isNull ||
    others.length > 0 ||
    Object.keys(schema).some((key) => !knownKeys.includes(key))
  ) {
    throw new SpecError(
      `${where}: "oneOf" is supported as [SCHEMA, { type: 'null' }], beside a description only`,
    )
  }
  return object(inner, where)
}

/**
 * Returns the name of the component schema that `schema` refers to, or null if it is not a
 * reference.
 */
export function schemaName(schema: JsonObject): string | null {
  return typeof schema.$ref === 'string' ? schema.$ref.slice(COMPONENT.length) : null
}

/** Returns the properties of an object's schema. */
export function propertiesOf(schemas: Schemas, schema: JsonObject): [string, JsonObject][] {
  return entries(inlined(schemas, schema).properties, 'properties').map(([name, property]) => [
    name,
    object(property, name),
  ])
}

/** Returns the schema with a reference to a component replaced by the component. */
export function inlined(schemas: Schemas, schema: JsonObject): JsonObject {
  const name = schemaName(schema)
  if (name === null) return schema
  const { $ref: _, ...beside } = schema
  return { ...inlined(schemas, object(schemas[name], name)), ...beside }
}

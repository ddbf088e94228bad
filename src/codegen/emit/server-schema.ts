import { type JsonObject, list, object, type Schemas, SpecError } from '../document.ts'
import { inlined, isNullable, nullableOf, propertiesOf, schemaName } from '../schema.ts'
import type { Spec } from '../spec.ts'

/** Whether the schema describes what a client sends or what the server sends. */
export type Use = 'request' | 'answer'

/**
 * Returns a schema in the form that is exact and fast for the server's validators and serializers.
 * The published form is one that clients in every language understand.
 *
 * - References name the `$id` of a shared schema, as Ajv and Fastify resolve them.
 * - `oneOf` with null becomes a list of types, because serializers try the branches of `oneOf` one
 *   after the other.
 * - Objects of answers are closed. Clients must accept a new field; the server must not send one by
 *   accident.
 * - A default behind a reference moves to the request's property, where Ajv fills it in.
 * - `maxLength` is omitted if `x-max-bytes` implies it, so that error messages are about bytes.
 */
export function serverSchema(schemas: Schemas, schema: JsonObject, use: Use): JsonObject {
  if (isNullable(schema)) return nullable(schemas, schema, use)
  const name = schemaName(schema)
  if (name !== null) return { $ref: `${name}#` }
  const { default: _, maxLength, not, properties, items, ...result } = schema
  const maxBytes = schema['x-max-bytes']
  if (maxLength !== undefined && !(Number(maxLength) >= Number(maxBytes))) result.maxLength = maxLength
  // Without a type, it would also reject null.
  if (not !== undefined) result.not = { type: 'string', ...object(not, 'not') }
  if (items !== undefined) result.items = serverSchema(schemas, object(items, 'items'), use)
  if (properties !== undefined) {
    result.properties = Object.fromEntries(
      propertiesOf(schemas, schema).map(([key, value]) => [key, property(schemas, value, use)]),
    )
  }
  if (use === 'answer' && schema.type === 'object') result.additionalProperties = false
  return result
}

/** Returns the schema of a request's field or parameter, with its default. */
export function property(schemas: Schemas, schema: JsonObject, use: Use): JsonObject {
  const value = defaultOf(schemas, schema)
  const result = serverSchema(schemas, schema, use)
  return use === 'answer' || value === undefined ? result : { ...result, default: value }
}

/** Returns the default of a field or parameter, or of the component that it refers to. */
export function defaultOf(schemas: Schemas, schema: JsonObject): JsonObject[string] | undefined {
  return inlined(schemas, schema).default
}

function nullable(schemas: Schemas, { oneOf, ...beside }: JsonObject, use: Use): JsonObject {
  const inner = inlined(schemas, nullableOf({ oneOf: oneOf ?? [], ...beside }, 'a schema'))
  const { type, const: only, ...result } = { ...serverSchema(schemas, inner, use), ...beside }
  const values = only === undefined ? result.enum : [only]
  if (values !== undefined) result.enum = [...list(values), null]
  return { type: [type ?? [], 'null'].flat(), ...result }
}

/**
 * Emits every component schema in the server's form with an `$id`, for validators and serializers.
 *
 * @throws SpecError for a component that would have to be open for requests and closed for answers
 */
export function emitSchemas({ schemas, operations }: Spec): string {
  const requests = operations.flatMap(({ parameters: { path, query }, body }) => [...path, ...query, body])
  const requestSchemas = reachable(schemas, requests)
  const answered = reachable(
    schemas,
    operations.flatMap(({ replies }) => replies),
  )
  const components = Object.entries(schemas).map(([name, schema]) => {
    const request = serverSchema(schemas, schema, 'request')
    const answer = serverSchema(schemas, schema, 'answer')
    if (
      requestSchemas.has(name) &&
      answered.has(name) &&
      JSON.stringify(request) !== JSON.stringify(answer)
    ) {
      throw new SpecError(
        `components.schemas.${name} is used by a request and by an answer; write two schemas, because the server ` +
          'ignores unknown fields of requests and sends none in answers',
      )
    }
    return [name, { $id: name, ...(answered.has(name) ? answer : request) }]
  })
  return `export const schemas = ${JSON.stringify(Object.fromEntries(components), null, 2)} as const\n`
}

/**
 * Returns the names of the components that the schemas of `roots` refer to, directly or indirectly.
 */
function reachable(schemas: Schemas, roots: readonly ({ schema: JsonObject | null } | null)[]): Set<string> {
  const names = new Set<string>()
  const visit = (schema: JsonObject) => {
    const name = schemaName(schema)
    if (name !== null && !names.has(name)) {
      names.add(name)
      visit(object(schemas[name], name))
    }
    for (const [, value] of propertiesOf(schemas, schema)) visit(value)
    if (schema.items !== undefined) visit(object(schema.items, 'items'))
    for (const branch of list(schema.oneOf)) visit(object(branch, 'oneOf'))
  }
  for (const root of roots) if (root?.schema) visit(root.schema)
  return names
}

import { type JsonObject, object, type Schemas } from '../document.ts'
import { handlerHeaders } from '../headers.ts'
import { inlined } from '../schema.ts'
import type { Header, Operation, Parameter, Spec } from '../spec.ts'
import { property, serverSchema } from './server-schema.ts'

/**
 * Emits the scopes of tokens, and for each operation everything that the server needs to bind it to
 * a route.
 */
export function emitOperations({ operations, schemas }: Spec): string {
  const rows = Object.fromEntries(operations.map((operation) => [operation.id, row(operation, schemas)]))
  const scopes = Object.fromEntries(
    operations.flatMap((operation) => operation.scopes.map((name) => [name, name])),
  )
  return (
    `export const scopes = ${JSON.stringify(scopes, null, 2)} as const\nexport type Scope = keyof typeof scopes\n\n` +
    `export const operations = ${JSON.stringify(rows, null, 2)} as const\n`
  )
}

function row(operation: Operation, schemas: Schemas) {
  const { method, path, parameters, body, replies } = operation
  const answer = (schema: JsonObject | null) => schema && serverSchema(schemas, schema, 'answer')
  const headers = replies.map((reply) => [reply.status, handlerHeaders(method, reply)] as const)
  return {
    method,
    path,
    url: path.replace(/\{(\w+)\}/g, ':$1'),
    access: operation.access,
    anonymous: operation.anonymous,
    schemes: operation.schemes,
    scopes: operation.scopes,
    params: objectSchema(parameters.path, (schema) => property(schemas, schema, 'request')),
    query:
      parameters.query.length === 0
        ? null
        : objectSchema(parameters.query, (schema) => queryProperty(schemas, schema)),
    body: body && serverSchema(schemas, body.schema, 'request'),
    bodyLimit: body?.limit ?? 0,
    replies: Object.fromEntries(replies.map(({ status, schema }) => [status, answer(schema)])),
    // Only headers that handlers set.
    headers: Object.fromEntries(
      headers.filter(([, set]) => set.length > 0).map(([status, set]) => [status, headersOf(set, schemas)]),
    ),
  }
}

function objectSchema(parameters: readonly Parameter[], schemaOf: (schema: JsonObject) => JsonObject) {
  return {
    type: 'object',
    required: parameters.filter(({ required }) => required).map(({ name }) => name),
    properties: Object.fromEntries(parameters.map(({ name, schema }) => [name, schemaOf(schema)])),
  }
}

/**
 * Returns the schema of a query parameter without references, because query strings are coerced by
 * its types.
 */
function queryProperty(schemas: Schemas, schema: JsonObject): JsonObject {
  const whole = property(schemas, inlined(schemas, schema), 'request')
  const items = inlined(schemas, schema).items
  return items === undefined
    ? whole
    : { ...whole, items: serverSchema(schemas, inlined(schemas, object(items, 'items')), 'request') }
}

function headersOf(headers: readonly Header[], schemas: Schemas) {
  return {
    ...objectSchema(headers, (schema) => serverSchema(schemas, schema, 'answer')),
    additionalProperties: false,
  }
}

import { withSchemaIds } from './keywords.ts'
import type { Operation, Spec } from './spec.ts'

/** One row an operation: all that the server needs to bind it to a route. */
export function emitOperations(spec: Spec): string {
  const rows = Object.fromEntries(spec.operations.map((operation) => [operation.id, row(operation)]))
  return `export const operations = ${JSON.stringify(rows, null, 2)} as const\n`
}

function row(operation: Operation) {
  return {
    method: operation.method,
    path: operation.path,
    url: operation.path.replace(/\{(\w+)\}/g, ':$1'),
    access: operation.access,
    anonymous: operation.anonymous,
    schemes: operation.schemes,
    scopes: operation.scopes,
    params: {
      type: 'object',
      required: operation.parameters.map(({ name }) => name),
      properties: Object.fromEntries(
        operation.parameters.map(({ name, schema }) => [name, withSchemaIds(schema)]),
      ),
    },
    body: operation.body && withSchemaIds(operation.body.schema),
    bodyLimit: operation.body?.limit ?? 0,
    replies: Object.fromEntries(
      operation.replies.map(({ status, schema }) => [status, schema && withSchemaIds(schema)]),
    ),
  }
}

import { withSchemaIds } from './keywords.ts'
import type { Spec } from './spec.ts'

/** Component JSON Schemas, each under its `$id`, for validators, serializers and rules stated once. */
export function emitSchemas(spec: Spec): string {
  const schemas = Object.fromEntries(
    Object.entries(spec.schemas).map(([name, schema]) => [
      name,
      { $id: name, ...Object(withSchemaIds(schema)) },
    ]),
  )
  return `export const schemas = ${JSON.stringify(schemas, null, 2)} as const\n`
}

import { serverComponents } from './server-schema.ts'
import type { Spec } from './spec.ts'

/** Emits the component JSON Schemas with an `$id` each, for validators and serializers. */
export function emitSchemas({ schemas, operations }: Spec): string {
  const requests = operations.flatMap(({ parameters, body }) => [
    ...[...parameters.path, ...parameters.query].map(({ schema }) => schema),
    ...(body ? [body.schema] : []),
  ])
  const answers = operations.flatMap(({ replies }) =>
    replies.flatMap(({ schema }) => (schema ? [schema] : [])),
  )
  const components = Object.fromEntries(
    Object.entries(serverComponents(schemas, requests, answers)).map(([name, schema]) => [
      name,
      { $id: name, ...schema },
    ]),
  )
  return `export const schemas = ${JSON.stringify(components, null, 2)} as const\n`
}

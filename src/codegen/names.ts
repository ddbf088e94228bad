import type { JsonObject } from './document.ts'
import { refName } from './keywords.ts'
import type { Operation } from './spec.ts'

/** Beginning of the names of an operation's types: `ReportStatus`. */
export function typeName(operationId: string): string {
  return operationId.charAt(0).toUpperCase() + operationId.slice(1)
}

/** The operation among openapi-typescript's types. */
export function routeType({ path, method }: Operation): string {
  return `paths['${path}']['${method.toLowerCase()}']`
}

/** A schema among openapi-typescript's types: by the component's name, or where it stands. */
export function schemaType(schema: JsonObject, inline: string): string {
  const name = refName(schema)
  return name === null ? inline : `components['schemas']['${name}']`
}

/** A union of string literals. */
export function union(names: readonly string[]): string {
  return names.map((name) => `'${name}'`).join(' | ')
}

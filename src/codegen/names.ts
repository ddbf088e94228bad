import type { JsonObject } from './document.ts'
import { refName } from './keywords.ts'
import type { Operation } from './spec.ts'

/** Returns the prefix of the names of an operation's types, such as `ReportStatus`. */
export function typeName(operationId: string): string {
  return operationId.charAt(0).toUpperCase() + operationId.slice(1)
}

/** Returns openapi-typescript's type of the operation. */
export function routeType({ path, method }: Operation): string {
  return `paths['${path}']['${method.toLowerCase()}']`
}

/** Returns openapi-typescript's type of a schema: that of the component it refers to, or `inline`. */
export function schemaType(schema: JsonObject, inline: string): string {
  const name = refName(schema)
  return name === null ? inline : `components['schemas']['${name}']`
}

/** Returns a union of string literals. */
export function union(names: readonly string[]): string {
  return names.map((name) => `'${name}'`).join(' | ')
}

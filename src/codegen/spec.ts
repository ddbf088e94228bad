import type { JsonObject, Schemas } from './document.ts'

/** An operation of the contract. All references are resolved, except those to component schemas. */
export interface Operation {
  id: string
  summary: string
  method: string
  /** The path as in the contract, such as `/api/v1/repos/{owner}`. */
  path: string
  /** Access to the repository that a caller needs. */
  access: 'read' | 'write'
  /**
   * The field of the body that makes a request replace an earlier one, so that repeating it is
   * safe.
   */
  replacesBy: string | null
  /** Whether the contract allows a call without a credential. */
  anonymous: boolean
  /** Names of the security schemes, in the contract's order. */
  schemes: string[]
  /** Scopes that every scheme requires. */
  scopes: string[]
  parameters: Parameters
  /** `limit` is the maximum size in bytes. */
  body: { schema: JsonObject; limit: number } | null
  replies: Reply[]
}

export interface Parameter {
  name: string
  required: boolean
  schema: JsonObject
}

/** Parameters of an operation by location. */
export interface Parameters {
  path: Parameter[]
  query: Parameter[]
}

export interface Reply {
  status: number
  /** null if there is no body. */
  schema: JsonObject | null
  headers: Header[]
}

export interface Header {
  name: string
  required: boolean
  schema: JsonObject
}

/** The input of the emitters. */
export interface Spec {
  document: JsonObject
  operations: Operation[]
  schemas: Schemas
}

/** Returns the prefix of the names of an operation's types, such as `ReportStatus`. */
export function typeName(operationId: string): string {
  return operationId.charAt(0).toUpperCase() + operationId.slice(1)
}

/** Returns openapi-typescript's type of the operation. */
export function routeType({ path, method }: Operation): string {
  return `paths['${path}']['${method.toLowerCase()}']`
}

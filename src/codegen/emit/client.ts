import { type JsonObject, list, type Schemas, SpecError } from '../document.ts'
import { inlined, propertiesOf, schemaName } from '../schema.ts'
import { type Operation, routeType, type Spec, typeName } from '../spec.ts'

/**
 * Emits the client's view of each operation: types of its input and results; its method, path and
 * limits as data.
 */
export function emitClient(spec: Spec): string {
  const types = spec.operations.map(operationTypes)
  const methods = spec.operations.map(
    ({ id, summary }) =>
      `  /** ${summary}. */\n  ${id}(input: ${typeName(id)}Input, options?: Options): Promise<${typeName(id)}Result>\n`,
  )
  const rows = Object.fromEntries(spec.operations.map((operation) => [operation.id, row(spec, operation)]))
  const bindings = spec.operations.map(({ id, body }) =>
    body
      ? `    ${id}: ({ body, ...parameters }, options) => call(operations.${id}, { parameters, body }, options),\n`
      : `    ${id}: (parameters, options) => call(operations.${id}, { parameters }, options),\n`,
  )
  return `import type { paths } from './schema.ts'

/** A response that the contract declares. */
export interface Result<Status extends number, Body> {
  status: Status
  body: Body
  headers: Headers
}

/**
 * No response that the contract declares: the service could not be reached, or something else
 * responded.
 */
export type Unanswered = Result<0, { error: string }>

${types.join('\n')}
/** All operations of the contract. */
export interface Operations<Options> {
${methods.join('\n')}}

/** Describes an operation, as needed to send requests to it. */
export interface Operation {
  method: string
  path: string
  /** Names of the query parameters. All others are in the path. */
  query: readonly string[]
  /** Status codes that the contract declares. */
  statuses: readonly number[]
  /** Fields that every successful response has. */
  required: readonly string[]
  /** Whether the same request may be sent twice: it is idempotent. */
  repeatable: boolean
  /**
   * Requests to one path with the same value of this field replace each other; \`otherwise\` is its
   * default.
   */
  replacesBy: { field: string; otherwise: string } | null
  /** Maximum length of fields of the body, in Unicode code points. */
  maxLength: Readonly<Record<string, number>>
  /** Permitted values of fields of the body with an enum. */
  values: Readonly<Record<string, readonly string[]>>
}

type Parameter = string | number | boolean
/** The path and query parameters and the body of a request. */
export interface OperationInput {
  parameters: Readonly<Record<string, Parameter | readonly Parameter[] | undefined>>
  body?: Readonly<Record<string, unknown>>
}

/** What values of enums count as where several are combined. */
export const countsAs = ${JSON.stringify(countsAs(spec.schemas), null, 2)} as const

export const operations = ${JSON.stringify(rows, null, 2)} as const satisfies Record<string, Operation>

/** Returns one method for each operation. \`call\` sends the request and returns the result. */
export function createOperations<Options>(
  call: <Answer>(operation: Operation, input: OperationInput, options?: Options) => Promise<Answer>,
): Operations<Options> {
  return {
${bindings.join('')}  }
}
`
}

function countsAs(schemas: Schemas): JsonObject {
  const entries = Object.entries(schemas).flatMap(([name, schema]) => {
    const values = schema['x-counts-as']
    return values === undefined ? [] : [[name, values]]
  })
  return Object.fromEntries(entries)
}

function operationTypes(operation: Operation): string {
  const { id, parameters, body, replies } = operation
  const route = routeType(operation)
  const content = `['content']['application/json']`
  const parts = [`${route}['parameters']['path']`]
  if (parameters.query.length > 0) parts.push(`NonNullable<${route}['parameters']['query']>`)
  if (body) parts.push(`{ body: ${route}['requestBody']${content} }`)
  const union = replies.map(({ status, schema }) => {
    return `  | Result<${status}, ${schema ? `${route}['responses'][${status}]${content}` : 'undefined'}>`
  })
  const holds = parameters.query.length > 0 ? 'Path and query parameters' : 'Path parameters'
  return `/** ${holds}${body ? ` and the body${bodyName(body.schema)}` : ''}. */
export type ${typeName(id)}Input = ${parts.join(' & ')}

export type ${typeName(id)}Result =
${union.join('\n')}
  | Unanswered
`
}

function row({ schemas }: Spec, { id, method, path, parameters, body, replies, replacesBy }: Operation) {
  const properties = body ? propertiesOf(schemas, body.schema) : []
  const fields = Object.fromEntries(properties.map(([key, field]) => [key, inlined(schemas, field)]))
  const limits = Object.entries(fields).filter(([, field]) => typeof field.maxLength === 'number')
  const choices = Object.entries(fields).filter(([, field]) => field.enum !== undefined)
  return {
    method,
    path,
    query: parameters.query.map(({ name }) => name),
    statuses: replies.map(({ status }) => status),
    required: requiredOf(schemas, replies),
    repeatable: replacesBy !== null || ['GET', 'PUT', 'DELETE'].includes(method),
    replacesBy: replacesBy && { field: replacesBy, otherwise: defaultOf(id, replacesBy, fields) },
    maxLength: Object.fromEntries(limits.map(([name, field]) => [name, field.maxLength])),
    values: Object.fromEntries(choices.map(([name, field]) => [name, list(field.enum)])),
  }
}

function requiredOf(schemas: Schemas, replies: Operation['replies']): string[] {
  const success = replies.find(({ status, schema }) => status < 300 && schema !== null)
  const required = success?.schema ? inlined(schemas, success.schema).required : undefined
  return required === undefined ? [] : list(required).map(String)
}

function defaultOf(id: string, name: string, fields: Record<string, JsonObject>): string {
  const field = fields[name]
  if (field?.type !== 'string')
    throw new SpecError(`${id}: x-replaces-by must name a string field of the body`)
  return typeof field.default === 'string' ? field.default : ''
}

function bodyName(schema: JsonObject): string {
  const name = schemaName(schema)
  return name === null ? '' : ` (${name})`
}

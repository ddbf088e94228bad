import type { JsonObject, Schemas } from '../document.ts'
import { handlerHeaders } from '../headers.ts'
import { propertiesOf, schemaName } from '../schema.ts'
import { type Operation, type Reply, routeType, type Spec, typeName } from '../spec.ts'
import { defaultOf } from './server-schema.ts'

/**
 * Emits the interface that the server implements: one method for each operation, one reply type for
 * each success.
 */
export function emitHandlers(spec: Spec): string {
  const parts = spec.operations.map((operation) => operationTypes(spec, operation))
  const methods = spec.operations.map(
    ({ id, method, path, summary }) =>
      `  /** ${summary}: \`${method} ${path}\` */\n` +
      `  ${id}(request: ${typeName(id)}Request, context: Context): Promise<${typeName(id)}Reply>\n`,
  )
  const text = parts.join('\n')
  const imports = ['components', 'paths'].filter((name) => text.includes(`${name}['`))
  return `import type { ${imports.join(', ')} } from './schema.ts'

/**
 * A success that the contract declares. \`Headers\` is an object type with the property
 * \`headers\`, if it has any.
 */
export type Reply<Status extends number, Body extends object | null, Headers = unknown> = Headers & {
  status: Status
} & ({ body: Body } | { derived: Derived<Body> })

/** A body that follows from its source alone, as \`derive\` in src/api/answers.ts returns it. */
export interface Derived<Body> {
  toBody: (source: never) => Body
  source: object
  body(): Body
}

${text}
/**
 * All operations of the contract. A handler returns a success and throws every error. \`Context\`
 * describes the caller.
 */
export interface Handlers<Context> {
${methods.join('\n')}}

/** The parts of a request, validated by the operation's schemas. */
export interface ValidatedRequest {
  params: unknown
  query?: unknown
  body?: unknown
}

/** A success of any operation. */
export type AnyReply = Reply<
  number,
  object | null,
  { headers?: Readonly<Record<string, string | number | boolean | undefined>> }
>

/** Calls the handler of one operation. */
export type Call<Context> = (request: ValidatedRequest, context: Context) => Promise<AnyReply>
`
}

function operationTypes({ schemas }: Spec, operation: Operation): string {
  const { id, parameters, body, replies } = operation
  const name = typeName(id)
  const route = routeType(operation)
  const params = parameters.path.map(
    ({ name, schema }) => `    ${name}: ${schemaType(schema, `${route}['parameters']['path']['${name}']`)}`,
  )
  const queryType =
    parameters.query.length > 0 &&
    withDefaults(
      schemas,
      parameters.query.map(({ name, schema }) => [name, schema]),
      `NonNullable<${route}['parameters']['query']>`,
    )
  const bodyType =
    body &&
    withDefaults(
      schemas,
      propertiesOf(schemas, body.schema),
      schemaType(body.schema, `${route}['requestBody']['content']['application/json']`),
    )
  const successes = replies.filter(({ status }) => status < 300)
  return `export interface ${name}Request {
  params: {
${params.join('\n')}
  }
${queryType ? `  query: ${queryType}\n` : ''}${bodyType ? `  body: ${bodyType}\n` : ''}}

export type ${name}Reply =
${successes.map((reply) => `  | ${replyType(operation, reply)}`).join('\n')}
`
}

function replyType(operation: Operation, reply: Reply): string {
  const { status, schema } = reply
  const response = `${routeType(operation)}['responses'][${status}]`
  const body = schema ? schemaType(schema, `${response}['content']['application/json']`) : 'null'
  const headers = handlerHeaders(operation.method, reply)
  if (headers.length === 0) return `Reply<${status}, ${body}>`
  // openapi-typescript loses `required` of a header that is a reference.
  const pick = (required: boolean) =>
    `Pick<${response}['headers'], ${union(headers.filter((header) => header.required === required).map(({ name }) => name)) || 'never'}>`
  const needed = headers.some(({ required }) => required)
  return `Reply<${status}, ${body}, { headers${needed ? '' : '?'}: Required<${pick(true)}> & Partial<${pick(false)}> }>`
}

/**
 * Returns openapi-typescript's type of a schema: that of the component it refers to, or `inline`.
 */
function schemaType(schema: JsonObject, inline: string): string {
  const name = schemaName(schema)
  return name === null ? inline : `components['schemas']['${name}']`
}

/** Returns a union of string literals. */
function union(names: readonly string[]): string {
  return names.map((name) => `'${name}'`).join(' | ')
}

/** Returns the type with the fields that have a default made required: validation fills them in. */
function withDefaults(schemas: Schemas, fields: readonly [string, JsonObject][], type: string): string {
  const filled = fields.filter(([, schema]) => defaultOf(schemas, schema) !== undefined).map(([name]) => name)
  return filled.length === 0 ? type : `${type} & Required<Pick<${type}, ${union(filled)}>>`
}

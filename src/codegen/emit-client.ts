import { refName } from './keywords.ts'
import type { Operation, Spec } from './spec.ts'

/** What the client is made of: each operation's input and results as types, its method and path as data. */
export function emitClient(spec: Spec): string {
  const types = spec.operations.map(operationTypes)
  const methods = spec.operations.map(
    ({ id, summary }) =>
      `  /** ${summary}. */\n  ${id}(input: ${typeName(id)}Input): Promise<${typeName(id)}Result>\n`,
  )
  const rows = spec.operations.map(({ id, method, path, body }) => {
    const route = `'${method.toLowerCase()}', '${path}'`
    return body
      ? `    ${id}: ({ body, ...parameters }) => call(${route}, parameters, body),\n`
      : `    ${id}: (parameters) => call(${route}, parameters),\n`
  })
  return `import type { paths } from './schema.ts'

/** One answer: a status code that the contract declares, with its body. */
export interface Result<Status extends number, Body> {
  status: Status
  body: Body
  headers: Headers
}

${types.join('\n')}
/** Every operation of the contract. */
export interface Operations {
${methods.join('\n')}}

/** Makes one method an operation out of \`call\`, which sends the request and gives its result. */
export function operationsOver(
  call: <Answer>(method: string, path: string, parameters: object, body?: unknown) => Promise<Answer>,
): Operations {
  return {
${rows.join('')}  }
}
`
}

function operationTypes({ id, method, path, body, replies }: Operation): string {
  const route = `paths['${path}']['${method.toLowerCase()}']`
  const input = `${route}['parameters']['path']`
  const content = `['content']['application/json']`
  const union = replies.map(({ status, schema }) => {
    return `  | Result<${status}, ${schema ? `${route}['responses'][${status}]${content}` : 'undefined'}>`
  })
  return `/** Path parameters${body ? ` and the body${bodyName(body.schema)}` : ''}. */
export type ${typeName(id)}Input = ${input}${body ? ` & { body: ${route}['requestBody']${content} }` : ''}

export type ${typeName(id)}Result =
${union.join('\n')}
`
}

function bodyName(schema: Parameters<typeof refName>[0]): string {
  const name = refName(schema)
  return name === null ? '' : `, a ${name}`
}

function typeName(operationId: string): string {
  return operationId.charAt(0).toUpperCase() + operationId.slice(1)
}

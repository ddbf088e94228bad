import { type JsonObject, object, refName } from './keywords.ts'
import type { Operation, Spec } from './spec.ts'

/** The interface that the server fills: one method an operation, one reply type a status code. */
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

/** One answer: a status code that the contract declares, with its body. */
export interface Reply<Status extends number, Body> {
  status: Status
  body: Body
}

${text}
/** Every operation of the contract. \`Context\` is what the server knows about the caller. */
export interface Handlers<Context> {
${methods.join('\n')}}
`
}

function operationTypes(spec: Spec, operation: Operation): string {
  const { id, method, path, parameters, body, replies } = operation
  const name = typeName(id)
  const route = `paths['${path}']['${method.toLowerCase()}']`
  const params = parameters.map(
    (parameter) =>
      `    ${parameter.name}: ${schemaType(parameter.schema, `${route}['parameters']['path']['${parameter.name}']`)}`,
  )
  const bodyType =
    body && withDefaults(spec, body.schema, `${route}['requestBody']['content']['application/json']`)
  const union = replies.map(({ status, schema }) => {
    const type = schema
      ? schemaType(schema, `${route}['responses'][${status}]['content']['application/json']`)
      : 'null'
    return `  | Reply<${status}, ${type}>`
  })
  return `export interface ${name}Request {
  params: {
${params.join('\n')}
  }
${bodyType ? `  body: ${bodyType}\n` : ''}}

export type ${name}Reply =
${union.join('\n')}
`
}

/** Fields with a default are there once the request is validated. */
function withDefaults(spec: Spec, schema: JsonObject, inline: string): string {
  const type = schemaType(schema, inline)
  const name = refName(schema)
  const resolved = name === null ? schema : object(spec.schemas[name], name)
  const fields = Object.entries(object(resolved.properties ?? {}, 'properties'))
    .filter(([, property]) => object(property, 'property').default !== undefined)
    .map(([field]) => `'${field}'`)
  return fields.length === 0 ? type : `${type} & Required<Pick<${type}, ${fields.join(' | ')}>>`
}

function schemaType(schema: JsonObject, inline: string): string {
  const name = refName(schema)
  return name === null ? inline : `components['schemas']['${name}']`
}

function typeName(operationId: string): string {
  return operationId.charAt(0).toUpperCase() + operationId.slice(1)
}

import { type JsonObject, list, type Schemas, SpecError } from '../document.ts'
import { inlined, propertiesOf } from '../schema.ts'
import { type Operation, type Spec, typeName } from '../spec.ts'

/**
 * Emits what the client needs to know of each operation at run time, and names for its types, which
 * follow from those of `schema.ts`.
 */
export function emitClient({ operations, schemas }: Spec): string {
  const types = operations.map(({ id }) => {
    const name = typeName(id)
    return `export type ${name}Input = Input<'${id}'>\nexport type ${name}Result = Output<'${id}'>\n`
  })
  const methods = operations.map(({ id, summary }) => {
    const name = typeName(id)
    return `  /** ${summary}. */\n  ${id}(input: ${name}Input, options?: Options): Promise<${name}Result>\n`
  })
  const rows = operations.map((operation) => {
    const fields = Object.entries(row(schemas, operation))
    const lines = fields.map(([key, value]) => `    ${key}: ${JSON.stringify(value)},\n`)
    return `  ${operation.id}: {\n${lines.join('')}  },\n`
  })
  return `import type { Input, Operation, Output } from '../operation.ts'

${types.join('')}
/** All operations of the contract. */
export interface Operations<Options> {
${methods.join('')}}

export const operations = {
${rows.join('')}} as const satisfies Record<string, Operation>

/** What values of enums count as where several are combined. */
export const countsAs = ${JSON.stringify(countsAs(schemas))} as const
`
}

function countsAs(schemas: Schemas): JsonObject {
  const entries = Object.entries(schemas).flatMap(([name, schema]) => {
    const values = schema['x-counts-as']
    return values === undefined ? [] : [[name, values]]
  })
  return Object.fromEntries(entries)
}

function row(schemas: Schemas, { id, method, path, body, replies, replacesBy }: Operation) {
  const properties = body ? propertiesOf(schemas, body.schema) : []
  const fields = Object.fromEntries(properties.map(([key, field]) => [key, inlined(schemas, field)]))
  const limits = Object.entries(fields).filter(([, field]) => typeof field.maxLength === 'number')
  const choices = Object.entries(fields).filter(([, field]) => field.enum !== undefined)
  const success = replies.find(({ status, schema }) => status < 300 && schema !== null)
  return {
    method,
    path,
    statuses: replies.map(({ status }) => status),
    required: success?.schema ? list(inlined(schemas, success.schema).required ?? []) : [],
    repeatable: replacesBy !== null || ['GET', 'PUT', 'DELETE'].includes(method),
    ...(replacesBy && { replacesBy: { field: replacesBy, otherwise: defaultOf(id, replacesBy, fields) } }),
    ...(limits.length > 0 && {
      maxLength: Object.fromEntries(limits.map(([name, field]) => [name, field.maxLength])),
    }),
    ...(choices.length > 0 && {
      values: Object.fromEntries(choices.map(([name, field]) => [name, list(field.enum)])),
    }),
  }
}

function defaultOf(id: string, name: string, fields: Record<string, JsonObject>): string {
  const field = fields[name]
  if (field?.type !== 'string')
    throw new SpecError(`${id}: x-replaces-by must name a string field of the body`)
  return typeof field.default === 'string' ? field.default : ''
}

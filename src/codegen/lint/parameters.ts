import { Ajv2020 } from 'ajv/dist/2020.js'
import { type JsonObject, object, type Schemas, SpecError } from '../document.ts'
import { inlined } from '../schema.ts'
import type { Parameter } from '../spec.ts'

const SCALARS = ['string', 'integer', 'number', 'boolean']

/** Checks that the server can read a query parameter. @throws SpecError otherwise */
export function checkQueryParameter(schemas: Schemas, parameter: Parameter, where: string): void {
  checkQueryType(schemas, parameter.schema, `${where}: parameter ${parameter.name}`)
  checkDefault(schemas, parameter, where)
}

/**
 * Checks the type of a query parameter: a scalar, or an array of scalars, written as several values
 * of one name.
 */
function checkQueryType(schemas: Schemas, schema: JsonObject, where: string): void {
  const { type, items } = inlined(schemas, schema)
  const single = type === 'array' ? inlined(schemas, object(items, `${where}: items`)).type : type
  if (typeof single !== 'string' || !SCALARS.includes(single)) {
    throw new SpecError(`${where}: query parameters must be ${SCALARS.join(', ')} or arrays of these`)
  }
}

/** The last key of the page before. */
const POSITION = 'after'

/**
 * Checks the default, which the server fills in before it validates: an invalid one would fail
 * every request without it, and with a default position the first page would never be read.
 */
function checkDefault(schemas: Schemas, { name, required, schema }: Parameter, where: string): void {
  const { default: value, ...rules } = inlined(schemas, schema)
  if (value === undefined) return
  if (name === POSITION)
    throw new SpecError(`${where}: parameter ${name} begins a page, so it cannot have a default`)
  if (required) throw new SpecError(`${where}: parameter ${name} is required, so it cannot have a default`)
  const items = rules.items && inlined(schemas, object(rules.items, name))
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  if (!ajv.validate({ ...rules, ...(items && { items }) }, value))
    throw new SpecError(
      `${where}: parameter ${name}: the default ${ajv.errorsText(ajv.errors, { dataVar: '' }).trim()}`,
    )
}

/**
 * Checks that names are unique, because the client takes all parameters and the body in one object.
 */
export function checkNames(parameters: readonly Parameter[], where: string): void {
  const names = parameters.map(({ name }) => name)
  for (const [index, name] of names.entries()) {
    if (name === 'body') throw new SpecError(`${where}: a parameter cannot be called ${name}`)
    if (names.indexOf(name) !== index) throw new SpecError(`${where}: two parameters are called ${name}`)
  }
}

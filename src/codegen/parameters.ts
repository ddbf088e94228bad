import { Ajv2020 } from 'ajv/dist/2020.js'
import { type JsonObject, object, refuseUnknown, resolve, type Schemas, SpecError, text } from './document.ts'
import { checkSchema, inlined } from './keywords.ts'

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

const PARAMETER = ['name', 'in', 'required', 'deprecated', 'description', 'schema', 'example']
const SCALARS = ['string', 'integer', 'number', 'boolean']
/** The only header parameter that is supported: the server uses it to revalidate every GET. */
const IF_NONE_MATCH = 'if-none-match'

/**
 * Reads the parameters of an operation.
 *
 * @throws SpecError for one that the server cannot read
 */
export function readParameters(
  document: JsonObject,
  schemas: Schemas,
  values: readonly JsonObject[string][],
  where: string,
): Parameters {
  const parameters: Parameters = { path: [], query: [] }
  for (const value of values) {
    const parameter = resolve(document, value)
    refuseUnknown(parameter, PARAMETER, `${where}: a parameter`)
    const name = text(parameter.name, `${where}: parameter name`)
    const schema = object(parameter.schema, `${where}: parameter ${name}`)
    const required = parameter.required === true
    checkSchema(schema, `${where}: parameter ${name}`)
    if (parameter.in === 'path') parameters.path.push({ name, required, schema })
    else if (parameter.in === 'query') {
      checkQueryType(schemas, schema, `${where}: parameter ${name}`)
      checkDefault(schemas, { name, required, schema }, where)
      parameters.query.push({ name, required, schema })
    } else if (parameter.in !== 'header' || name.toLowerCase() !== IF_NONE_MATCH || required) {
      throw new SpecError(
        `${where}: parameter ${name}: only path and query parameters are supported, and the optional header If-None-Match`,
      )
    }
  }
  checkNames([...parameters.path, ...parameters.query], where)
  return parameters
}

/** Checks the type of a query parameter: a scalar, or an array of scalars, written as several values of one name. */
function checkQueryType(schemas: Schemas, schema: JsonObject, where: string): void {
  const { type, items } = inlined(schemas, schema)
  const single = type === 'array' ? inlined(schemas, object(items, `${where}: items`)).type : type
  if (typeof single !== 'string' || !SCALARS.includes(single)) {
    throw new SpecError(`${where}: query parameters must be ${SCALARS.join(', ')} or arrays of these`)
  }
}

/** Checks the default, which the server fills in before it validates: an invalid one would fail every request without it. */
function checkDefault(schemas: Schemas, { name, required, schema }: Parameter, where: string): void {
  const { default: value, ...rules } = inlined(schemas, schema)
  if (value === undefined) return
  if (required) throw new SpecError(`${where}: parameter ${name} is required, so it cannot have a default`)
  const items = rules.items && inlined(schemas, object(rules.items, name))
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  if (!ajv.validate({ ...rules, ...(items && { items }) }, value))
    throw new SpecError(
      `${where}: parameter ${name}: the default ${ajv.errorsText(ajv.errors, { dataVar: '' }).trim()}`,
    )
}

/** Checks that names are unique, because the client takes all parameters and the body in one object. */
function checkNames(parameters: readonly Parameter[], where: string): void {
  const names = parameters.map(({ name }) => name)
  for (const [index, name] of names.entries()) {
    // In TypeScript, every object has the members of Object.prototype: no input of the client would have the right type.
    if (name === 'body' || name in Object.prototype)
      throw new SpecError(`${where}: a parameter cannot be called ${name}`)
    if (names.indexOf(name) !== index) throw new SpecError(`${where}: two parameters are called ${name}`)
  }
}

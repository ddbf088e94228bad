import {
  type JsonObject,
  object,
  refuseUnknown,
  resolve,
  type Schemas,
  SpecError,
  text,
} from '../document.ts'
import { checkSchema } from '../lint/keywords.ts'
import { checkNames, checkQueryParameter } from '../lint/parameters.ts'
import type { Parameters } from '../spec.ts'

const PARAMETER = ['name', 'in', 'required', 'deprecated', 'description', 'schema', 'example']
/** The only header parameter that is supported: the server uses it to revalidate every GET. */
const IF_NONE_MATCH = 'if-none-match'

/** Reads the parameters of an operation. @throws SpecError for one that the server cannot read */
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
      checkQueryParameter(schemas, { name, required, schema }, where)
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

import { Ajv2020, type ErrorObject } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'
import { ServiceError } from '../errors.ts'
import { memoizeByObject } from '../util/memoize.ts'
import { truncate } from '../util/truncate.ts'

/** JSON Schemas by name, as written by the generator. */
export type Schemas = Record<string, { readonly $id: string }>

/**
 * Returns the validator for a contract's schemas. It fills in defaults, but coerces and removes
 * nothing.
 */
export const ajvFor = memoizeByObject((schemas: Schemas): Ajv2020 => {
  const ajv = new Ajv2020({
    coerceTypes: false,
    removeAdditional: false,
    useDefaults: true,
    allErrors: false,
    strict: true,
    allowUnionTypes: true,
    strictRequired: false,
    // Tests validate the schemas. Compiling the meta-schema here would double the server's start
    // time.
    validateSchema: false,
    verbose: true,
  })

  addFormats.default(ajv, ['uuid', 'date-time', 'int64'])
  ajv.addFormat('http-url', { type: 'string', validate: isHttpUrl })
  ajv.addKeyword({
    keyword: 'x-max-bytes',
    type: 'string',
    schemaType: 'number',
    validate: (limit: number, value: string) => Buffer.byteLength(value) <= limit,
    errors: false,
  })
  ajv.addKeyword({
    keyword: 'x-well-formed',
    type: 'string',
    schemaType: 'boolean',
    validate: (wanted: boolean, value: string) => !wanted || value.isWellFormed(),
    errors: false,
  })
  ajv.addKeyword({ keyword: 'x-rule', schemaType: 'string' })
  ajv.addKeyword({ keyword: 'x-counts-as', schemaType: 'object' })

  for (const schema of Object.values(schemas)) ajv.addSchema(schema)
  return ajv
})

/**
 * Compiles a schema to a function that throws ServiceError `field_invalid` for a value that does
 * not match. The message names the broken rule and the value received. `part` is what is validated,
 * such as `body`.
 */
export function compileValidator(ajv: Ajv2020, schema: object, part: string): (value: unknown) => void {
  const validate = ajv.compile(schema)
  return (value) => {
    if (validate(value)) return
    const [error] = validate.errors ?? []
    throw new ServiceError('field_invalid', error && describe(error, part))
  }
}

/**
 * Parameters of Ajv's errors, each of one keyword. Ajv types them as `any`, since a keyword may
 * have any.
 */
interface KeywordParams {
  missingProperty: string
  property: string
  type: string | string[]
  allowedValues: unknown[]
  limit: number
}

function describe(error: ErrorObject, part: string): string {
  const { keyword, data, parentSchema } = error
  const params = error.params as KeywordParams
  const field = error.instancePath.slice(1).replaceAll('/', '.')
  const name = field || `the ${part}`
  const rule: unknown = parentSchema?.['x-rule']
  switch (keyword) {
    case 'required':
      return `${[field, params.missingProperty].filter(Boolean).join('.')} is missing; it is required`
    case 'dependentRequired':
      return `${params.property} requires ${params.missingProperty}, which is missing`
    case 'type':
      return `${name} must be ${typeName(params.type, field === '')}; got ${show(data)}`
    case 'enum':
      return `${name} must be one of ${params.allowedValues.join(', ')}; got ${show(data)}`
    case 'minLength':
    case 'maxLength':
      return `${name} is ${[...String(data)].length} characters long; ${bound(keyword, params.limit)}`
    case 'x-max-bytes':
      return `${name} is ${Buffer.byteLength(String(data))} bytes long; at most ${error.schema} are allowed`
    case 'pattern':
    case 'not':
    case 'format':
    case 'x-well-formed':
      return `${name} ${typeof rule === 'string' ? rule : error.message}; got ${show(data)}`
    default:
      return `${name} ${error.message}; got ${show(data)}`
  }
}

/** Code points of a received value in a message. */
const MAX_SHOWN = 60

function bound(keyword: 'minLength' | 'maxLength', limit: number): string {
  if (keyword === 'maxLength') return `at most ${limit} are allowed`
  return limit === 1 ? 'at least 1 is required' : `at least ${limit} are required`
}

function typeName(type: string | string[], whole: boolean): string {
  const name = [type].flat().join(' or ')
  const article = /^[aeiou]/.test(name) ? 'an' : 'a'
  return whole && name === 'object' ? 'a JSON object' : `${article} ${name}`
}

/**
 * Formats a received value for a message. Truncates it, since it could be a secret in the wrong
 * place.
 */
export function show(value: unknown): string {
  const text =
    typeof value === 'number' ? String(value) : (JSON.stringify(shallow(value, 3)) ?? String(value))
  return truncate(text, MAX_SHOWN)
}

/** Returns the value down to `depth`: a body may be nested too deep for `JSON.stringify`. */
function shallow(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (depth === 0) return '…'
  if (Array.isArray(value)) return value.map((item: unknown) => shallow(item, depth - 1))
  const fields: [string, unknown][] = Object.entries(value)
  return Object.fromEntries(fields.map(([key, item]) => [key, shallow(item, depth - 1)]))
}

/**
 * Returns whether `value` is a URL by the WHATWG standard with the scheme http or https, without
 * whitespace, control characters and lone surrogates.
 */
export function isHttpUrl(value: string): boolean {
  return /^https?:\/\//i.test(value) && !/[\p{White_Space}\p{Cc}\p{Cs}]/u.test(value) && URL.canParse(value)
}

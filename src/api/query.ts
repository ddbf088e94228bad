import type { Ajv2020 } from 'ajv/dist/2020.js'
import { ServiceError } from '../errors.ts'
import { compileValidator } from './validator.ts'

/** The query parameters of an operation as written by the generator: an object schema without references. */
export interface QuerySchema {
  readonly type: 'object'
  readonly required: readonly string[]
  readonly properties: Readonly<
    Record<string, { readonly type: string; readonly items?: { readonly type: string } }>
  >
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/

/**
 * Creates a function that reads an operation's query parameters from a URL. It converts text to the declared types, fills
 * in defaults and ignores unknown parameters. It throws ServiceError `field_invalid` with a message that names the
 * parameter and the rule that it breaks.
 */
export function queryReader(ajv: Ajv2020, schema: QuerySchema): (url: string) => object {
  const validate = compileValidator(ajv, schema, 'query')
  return (url) => {
    // Without the members of Object.prototype, which would look like values that were sent.
    const values: Record<string, unknown> = Object.create(null)
    for (const [name, text] of pairsOf(url)) {
      const declared = Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined
      if (declared === undefined) continue
      if (text === null)
        throw new ServiceError('field_invalid', `${name} cannot be decoded; it must be percent-encoded UTF-8`)
      const known = values[name]
      if (declared.items) {
        values[name] = [...(Array.isArray(known) ? known : []), convert(text, declared.items.type)]
      } else if (known === undefined) {
        values[name] = convert(text, declared.type)
      } else throw new ServiceError('field_invalid', `${name} was sent more than once; send it once`)
    }
    const result = validate(values)
    if ('error' in result) throw result.error
    return values
  }
}

/** Yields the names and values of a form-encoded query. A value that cannot be decoded is null. */
function* pairsOf(url: string): Generator<[name: string, text: string | null]> {
  const start = url.indexOf('?')
  if (start < 0) return
  for (const pair of url.slice(start + 1).split('&')) {
    const equals = pair.indexOf('=')
    const name = decode(equals < 0 ? pair : pair.slice(0, equals))
    if (name !== null && name !== '') yield [name, equals < 0 ? '' : decode(pair.slice(equals + 1))]
  }
}

function decode(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return null
  }
}

/** Converts text to a type. Text that does not have the type's form stays text, so that the validator rejects it. */
function convert(text: string, type: string): unknown {
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  return (type === 'integer' || type === 'number') && NUMBER.test(text) ? Number(text) : text
}

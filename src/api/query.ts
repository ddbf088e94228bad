import type { Ajv2020 } from 'ajv/dist/2020.js'
import { ServiceError } from '../errors.ts'
import { compileValidator, show } from './validator.ts'

/**
 * The query parameters of an operation as written by the generator: an object schema without
 * references.
 */
export interface QuerySchema {
  readonly type: 'object'
  readonly required: readonly string[]
  readonly properties: Readonly<
    Record<string, { readonly type: string; readonly items?: { readonly type: string } }>
  >
}

/** Decoded names and values of a query, in its order. */
type Pairs = readonly (readonly [name: string, text: string])[]

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/

/** Decodes the form-encoded query of a URL that has one. @throws ServiceError `malformed_url` */
export function decodeQuery(url: string): Pairs {
  const pairs = url.slice(url.indexOf('?') + 1).split('&')
  return pairs.filter((pair) => pair !== '').map(decodePair)
}

function decodePair(pair: string): Pairs[number] {
  const equals = pair.indexOf('=')
  return equals < 0 ? [decode(pair), ''] : [decode(pair.slice(0, equals)), decode(pair.slice(equals + 1))]
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch (cause) {
    throw new ServiceError('malformed_url', undefined, { cause })
  }
}

/**
 * Creates a function that reads an operation's query parameters. It converts text to the declared
 * types and fills in defaults. It throws ServiceError `field_invalid` with a message that names the
 * parameter and the rule that it breaks. A parameter that the operation does not have breaks one
 * too: a misspelled name must not pass for a missing parameter.
 */
export function queryReader(ajv: Ajv2020, schema: QuerySchema): (pairs: Pairs) => object {
  const validate = compileValidator(ajv, schema, 'query')
  return (pairs) => {
    // Without the members of Object.prototype, which would look like values that were sent.
    const values: Record<string, unknown> = Object.create(null)
    for (const [name, text] of pairs) {
      const declared = Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined
      if (declared === undefined) {
        // Not made at start: it loads the language's data, for 20 ms.
        const names = new Intl.ListFormat('en-GB').format(Object.keys(schema.properties))
        throw new ServiceError(
          'field_invalid',
          `${show(name)} is an unknown query parameter; this operation takes ${names}`,
        )
      }
      const earlier = values[name]
      if (declared.items) {
        values[name] = [...(Array.isArray(earlier) ? earlier : []), convert(text, declared.items.type)]
      } else if (earlier === undefined) {
        values[name] = convert(text, declared.type)
      } else throw new ServiceError('field_invalid', `${name} was sent more than once; send it once`)
    }
    validate(values)
    return values
  }
}

/**
 * Converts text to a type. Text that does not have the type's form stays text, so that the
 * validator rejects it.
 */
function convert(text: string, type: string): unknown {
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  return (type === 'integer' || type === 'number') && NUMBER.test(text) ? Number(text) : text
}

import type { Ajv2020 } from 'ajv/dist/2020.js'
import { ServiceError } from '../errors.ts'
import { compileValidator } from './validator.ts'

/** The query parameters of an operation as the generator writes them: an object's schema without references. */
export interface QuerySchema {
  readonly type: 'object'
  readonly required: readonly string[]
  readonly properties: Readonly<
    Record<string, { readonly type: string; readonly items?: { readonly type: string } }>
  >
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?$/

/**
 * Makes a function that reads an operation's query parameters from a request's URL. Text becomes the declared type here
 * and nowhere else; defaults are filled in; unknown parameters are ignored.
 *
 * The function throws ServiceError `field_invalid`, naming the parameter and the rule that it breaks.
 */
export function queryReader(ajv: Ajv2020, schema: QuerySchema): (url: string) => object {
  const validate = compileValidator(ajv, schema, 'query')
  return (url) => {
    const values: Record<string, unknown> = {}
    for (const [name, text] of pairsOf(url)) {
      const declared = Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined
      if (declared === undefined) continue
      if (text === null)
        throw new ServiceError('field_invalid', `${name} must be percent-encoded UTF-8; it cannot be decoded`)
      const known = values[name]
      if (declared.items) {
        values[name] = [...(Array.isArray(known) ? known : []), typed(text, declared.items.type)]
      } else if (known === undefined) {
        values[name] = typed(text, declared.type)
      } else throw new ServiceError('field_invalid', `${name} was sent more than once; send it once`)
    }
    const result = validate(values)
    if ('error' in result) throw result.error
    return values
  }
}

/** Names and values of a query, as forms and `URLSearchParams` encode them; null for a value that cannot be decoded. */
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

/** What is not written as the type demands stays text, which the validator then refuses by name. */
function typed(text: string, type: string): unknown {
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  return (type === 'integer' || type === 'number') && NUMBER.test(text) ? Number(text) : text
}

import { entries, type JsonObject, list, object, refuseUnknown, SpecError, text } from '../document.ts'
import { COMPONENT, nullableOf } from '../schema.ts'
import { checkExpression } from './patterns.ts'

/** Schema keywords that the validators, the serializers and the generated types all support. */
const SCHEMA_KEYWORDS = [
  '$ref',
  'type',
  'enum',
  'const',
  'format',
  'pattern',
  'not',
  'oneOf',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'minItems',
  'maxItems',
  'uniqueItems',
  'items',
  'properties',
  'required',
  'dependentRequired',
  'default',
  'title',
  'description',
  'examples',
  'deprecated',
  // Maximum length of a string in UTF-8 bytes.
  'x-max-bytes',
  // Whether a string must not contain lone surrogates; no pattern can express this in every
  // language.
  'x-well-formed',
  // The rule in words, for error messages.
  'x-rule',
  // What each value of an enum counts as where several are combined.
  'x-counts-as',
]
const FORMATS = ['uuid', 'date-time', 'http-url', 'int64']

/**
 * Checks a schema and everything below it.
 *
 * @throws SpecError for a keyword, a format or a reference that the generator does not know, and
 * for valid schemas that break generated clients in other languages
 */
export function checkSchema(schema: JsonObject, where: string): void {
  refuseUnknown(schema, SCHEMA_KEYWORDS, where)
  if (schema.$ref !== undefined) checkReference(schema, where)
  if (Array.isArray(schema.type) || list(schema.enum).includes(null)) {
    throw new SpecError(`${where}: write null as oneOf: [SCHEMA, { type: 'null' }]`)
  }
  if (schema.format !== undefined && !FORMATS.includes(text(schema.format, where))) {
    throw new SpecError(`${where}: the generator does not know the format "${schema.format}"`)
  }
  if (schema.pattern !== undefined) checkExpression(text(schema.pattern, where), where)
  if (schema.not !== undefined) {
    const { pattern, ...others } = object(schema.not, where)
    if (Object.keys(others).length > 0)
      throw new SpecError(`${where}: "not" supports only the keyword pattern`)
    checkExpression(text(pattern, `${where}: not`), where)
  }
  if (schema.oneOf !== undefined) checkSchema(nullableOf(schema, where), where)
  for (const [name, property] of entries(schema.properties, where)) {
    checkSchema(object(property, `${where}.${name}`), `${where}.${name}`)
  }
  for (const [name] of entries(schema.dependentRequired, where)) checkDependent(schema, name, where)
  if (schema.items !== undefined) checkSchema(object(schema.items, `${where}[]`), `${where}[]`)
}

/** Checks a field that requires others. The server would also fill in its default without them. */
function checkDependent({ properties, dependentRequired }: JsonObject, name: string, where: string): void {
  const fields = object(properties ?? {}, where)
  for (const field of [name, ...list(object(dependentRequired ?? {}, where)[name])])
    if (!Object.hasOwn(fields, String(field)))
      throw new SpecError(`${where}: dependentRequired names ${field}, which is no property`)
  if (object(fields[name] ?? {}, where).default !== undefined)
    throw new SpecError(`${where}: ${name} requires other fields, so it cannot have a default`)
}

function checkReference(schema: JsonObject, where: string): void {
  if (!text(schema.$ref, where).startsWith(COMPONENT)) {
    throw new SpecError(`${where}: ${schema.$ref} does not refer to a component schema`)
  }
  for (const key of Object.keys(schema)) {
    if (key !== '$ref' && key !== 'description')
      throw new SpecError(`${where}: many languages ignore "${key}" beside $ref; move it to the component`)
  }
}

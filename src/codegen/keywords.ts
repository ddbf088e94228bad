import {
  entries,
  type JsonObject,
  list,
  object,
  refuseUnknown,
  type Schemas,
  SpecError,
  text,
} from './document.ts'
import { checkExpression } from './patterns.ts'

const REF = '#/components/schemas/'

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
  'default',
  'title',
  'description',
  'examples',
  'deprecated',
  // Maximum length of a string in UTF-8 bytes.
  'x-max-bytes',
  // Whether a string must not contain lone surrogates; no pattern can express this in every language.
  'x-well-formed',
  // The rule in words, for error messages.
  'x-rule',
]
const FORMATS = ['uuid', 'date-time', 'http-url']

/**
 * Checks a schema and everything below it.
 *
 * @throws SpecError for a keyword, a format or a reference that the generator does not know, and for valid schemas that
 *   break generated clients in other languages
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
  if (schema.items !== undefined) checkSchema(object(schema.items, `${where}[]`), `${where}[]`)
}

function checkReference(schema: JsonObject, where: string): void {
  if (!text(schema.$ref, where).startsWith(REF)) {
    throw new SpecError(`${where}: ${schema.$ref} does not refer to a component schema`)
  }
  for (const key of Object.keys(schema)) {
    if (key !== '$ref' && key !== 'description')
      throw new SpecError(`${where}: many languages ignore "${key}" beside $ref; move it to the component`)
  }
}

/** Returns whether the schema allows null or another schema. */
export function isNullable(schema: JsonObject): boolean {
  return schema.oneOf !== undefined
}

/** Returns the schema of the values other than null. @throws SpecError for any other use of oneOf */
export function nullableOf(schema: JsonObject, where: string): JsonObject {
  const [inner, nothing, ...others] = list(schema.oneOf)
  const known = ['oneOf', 'description', 'title', 'deprecated', 'examples']
  const isNull = nothing !== undefined && JSON.stringify(nothing) === '{"type":"null"}'
  if (
    inner === undefined ||
    !isNull ||
    others.length > 0 ||
    Object.keys(schema).some((key) => !known.includes(key))
  ) {
    throw new SpecError(
      `${where}: "oneOf" is supported as [SCHEMA, { type: 'null' }], beside a description only`,
    )
  }
  return object(inner, where)
}

/** Returns the name of the component schema that `schema` refers to, or null if it is not a reference. */
export function schemaName(schema: JsonObject): string | null {
  return typeof schema.$ref === 'string' ? schema.$ref.slice(REF.length) : null
}

/** Returns the properties of an object's schema. */
export function propertiesOf(schemas: Schemas, schema: JsonObject): [string, JsonObject][] {
  return entries(inlined(schemas, schema).properties, 'properties').map(([name, property]) => [
    name,
    object(property, name),
  ])
}

/** Returns the schema with a reference to a component replaced by the component. */
export function inlined(schemas: Schemas, schema: JsonObject): JsonObject {
  const name = schemaName(schema)
  if (name === null) return schema
  const { $ref: _, ...beside } = schema
  return { ...inlined(schemas, object(schemas[name], name)), ...beside }
}

import { compileErrors, parse, validate } from '@readme/openapi-parser'
import {
  checkSchema,
  type JsonObject,
  type JsonValue,
  object,
  refuseUnknown,
  SpecError,
  text,
} from './keywords.ts'

/** One operation of the contract, with every reference but those to component schemas resolved. */
export interface Operation {
  id: string
  summary: string
  method: string
  /** As in the contract: `/api/v1/repos/{owner}`. */
  path: string
  access: 'read' | 'write' | null
  /** Field of the body by which a request replaces an earlier one, so that repeating it is safe. */
  replacesBy: string | null
  /** Whether the contract allows a call without any credential. */
  anonymous: boolean
  /** Names of the security schemes, in the contract's order. */
  schemes: string[]
  /** Scopes that every one of them demands. */
  scopes: string[]
  parameters: { name: string; schema: JsonObject }[]
  body: { schema: JsonObject; limit: number } | null
  replies: { status: number; schema: JsonObject | null }[]
}

/** What the emitters work from. */
export interface Spec {
  document: JsonObject
  operations: Operation[]
  schemas: Record<string, JsonObject>
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete']
const PATH_ITEM = [...METHODS, 'parameters']
const OPERATION = [
  'operationId',
  'tags',
  'summary',
  'description',
  'deprecated',
  'x-access',
  'x-replaces-by',
  'security',
  'parameters',
  'requestBody',
  'responses',
]
const PARAMETER = ['name', 'in', 'required', 'description', 'schema', 'example']
const BODY = ['required', 'description', 'content', 'x-body-limit']
const REPLY = ['description', 'headers', 'content']
const HEADER = ['description', 'required', 'schema', 'example']
const MEDIA = ['schema', 'example', 'examples']
const JSON_TYPE = 'application/json'

/**
 * Reads a contract and refuses what the generator would otherwise have to ignore.
 *
 * @throws SpecError for an invalid document, a keyword or an `x-` key that is not known.
 */
export async function readSpec(file: string): Promise<Spec> {
  const result = await validate(file)
  if (!result.valid) throw new SpecError(compileErrors(result))
  const document = object(JSON.parse(JSON.stringify(await parse(file))), 'the document')
  const components = object(document.components ?? {}, 'components')
  refuseUnknown(
    document,
    ['openapi', 'info', 'servers', 'tags', 'paths', 'components', 'security'],
    'the document',
  )
  refuseUnknown(
    components,
    ['schemas', 'parameters', 'responses', 'headers', 'securitySchemes'],
    'components',
  )
  const schemas: Record<string, JsonObject> = {}
  for (const [name, schema] of Object.entries(object(components.schemas ?? {}, 'components.schemas'))) {
    schemas[name] = object(schema, name)
    checkSchema(schemas[name], `components.schemas.${name}`)
  }
  const operations: Operation[] = []
  for (const [path, item] of Object.entries(object(document.paths ?? {}, 'paths'))) {
    const pathItem = object(item, path)
    refuseUnknown(pathItem, PATH_ITEM, path)
    for (const method of METHODS) {
      if (method in pathItem) operations.push(readOperation(document, path, method, pathItem))
    }
  }
  return { document, operations, schemas }
}

function readOperation(document: JsonObject, path: string, method: string, pathItem: JsonObject): Operation {
  const where = `${method.toUpperCase()} ${path}`
  const operation = object(pathItem[method], where)
  refuseUnknown(operation, OPERATION, where)
  const access = operation['x-access'] ?? null
  if (access !== null && access !== 'read' && access !== 'write') {
    throw new SpecError(`${where}: x-access is "read" or "write"`)
  }
  return {
    id: text(operation.operationId, `${where}: operationId`),
    summary: text(operation.summary, `${where}: summary`),
    method: method.toUpperCase(),
    path,
    access,
    replacesBy:
      operation['x-replaces-by'] === undefined
        ? null
        : text(operation['x-replaces-by'], `${where}: x-replaces-by`),
    ...readSecurity(document, operation, where),
    parameters: [...list(pathItem.parameters), ...list(operation.parameters)].map((parameter) =>
      readParameter(resolve(document, parameter), where),
    ),
    body: operation.requestBody === undefined ? null : readBody(document, operation.requestBody, where),
    replies: readReplies(document, object(operation.responses, `${where}: responses`), where),
  }
}

function readSecurity(
  document: JsonObject,
  operation: JsonObject,
  where: string,
): Pick<Operation, 'anonymous' | 'schemes' | 'scopes'> {
  const schemes: string[] = []
  const scopes = new Set<string>()
  const requirements = list(operation.security ?? document.security)
  let anonymous = requirements.length === 0
  for (const requirement of requirements) {
    const entries = Object.entries(object(requirement, `${where}: security`))
    if (entries.length > 1)
      throw new SpecError(`${where}: only one security scheme a requirement is supported`)
    const [entry] = entries
    if (entry === undefined) anonymous = true
    else {
      schemes.push(entry[0])
      for (const scope of list(entry[1])) scopes.add(text(scope, `${where}: scope`))
    }
  }
  return { anonymous, schemes, scopes: [...scopes] }
}

function readParameter(parameter: JsonObject, where: string): Operation['parameters'][number] {
  refuseUnknown(parameter, PARAMETER, `${where}: a parameter`)
  const name = text(parameter.name, `${where}: parameter name`)
  if (parameter.in !== 'path')
    throw new SpecError(`${where}: parameter ${name}: only path parameters are supported`)
  const schema = object(parameter.schema, `${where}: parameter ${name}`)
  checkSchema(schema, `${where}: parameter ${name}`)
  return { name, schema }
}

function readBody(document: JsonObject, value: JsonValue, where: string): Operation['body'] {
  const body = resolve(document, value)
  refuseUnknown(body, BODY, `${where}: requestBody`)
  const limit = body['x-body-limit']
  if (typeof limit !== 'number') throw new SpecError(`${where}: requestBody needs an x-body-limit in bytes`)
  if (body.required !== true) throw new SpecError(`${where}: an optional request body is not supported`)
  const schema = readContent(body, `${where}: requestBody`)
  if (schema === null) throw new SpecError(`${where}: requestBody needs ${JSON_TYPE}`)
  return { schema, limit }
}

function readReplies(document: JsonObject, responses: JsonObject, where: string): Operation['replies'] {
  return Object.entries(responses).map(([status, value]) => {
    if (!/^[1-5]\d\d$/.test(status)) throw new SpecError(`${where}: response ${status} is not a status code`)
    const reply = resolve(document, value)
    refuseUnknown(reply, REPLY, `${where}: response ${status}`)
    for (const [name, header] of Object.entries(object(reply.headers ?? {}, `${where}: headers`))) {
      const resolved = resolve(document, header)
      refuseUnknown(resolved, HEADER, `${where}: header ${name}`)
      checkSchema(object(resolved.schema, `header ${name}`), `${where}: header ${name}`)
    }
    return { status: Number(status), schema: readContent(reply, `${where}: response ${status}`) }
  })
}

function readContent(holder: JsonObject, where: string): JsonObject | null {
  if (holder.content === undefined) return null
  const content = object(holder.content, where)
  refuseUnknown(content, [JSON_TYPE], `${where}: content`)
  const media = object(content[JSON_TYPE], `${where}: ${JSON_TYPE}`)
  refuseUnknown(media, MEDIA, `${where}: ${JSON_TYPE}`)
  const schema = object(media.schema, `${where}: schema`)
  checkSchema(schema, where)
  return schema
}

function list(value: JsonValue | undefined): JsonValue[] {
  return Array.isArray(value) ? value : []
}

function resolve(document: JsonObject, value: JsonValue): JsonObject {
  const holder = object(value, 'a component')
  if (holder.$ref === undefined) return holder
  const ref = text(holder.$ref, '$ref')
  if (!ref.startsWith('#/')) throw new SpecError(`${ref}: only references within the document are supported`)
  refuseUnknown(holder, ['$ref', 'summary', 'description'], `a reference to ${ref}`)
  let target: JsonValue = document
  for (const step of ref.slice(2).split('/')) target = object(target, ref)[step] ?? null
  return resolve(document, object(target, ref))
}

import { readFile } from 'node:fs/promises'
import { parse } from 'yaml'
import {
  entries,
  type JsonObject,
  type JsonValue,
  list,
  object,
  refuseUnknown,
  resolve,
  type Schemas,
  SpecError,
  text,
} from '../document.ts'
import { checkSchema } from '../lint/keywords.ts'
import { checkServable } from '../lint/servable.ts'
import type { Operation, Spec } from '../spec.ts'
import { readParameters } from './parameters.ts'
import { readContent, readReplies } from './replies.ts'

const METHODS = ['get', 'post', 'put', 'patch', 'delete']
const PATH_ITEM = [...METHODS, 'parameters']
const OPERATION = [
  'operationId',
  'tags',
  'summary',
  'description',
  'deprecated',
  'x-access',
  'x-scopes',
  'x-replaces-by',
  'security',
  'parameters',
  'requestBody',
  'responses',
]
const BODY = ['required', 'description', 'content', 'x-body-limit']
const DOCUMENT = ['openapi', 'info', 'servers', 'tags', 'paths', 'components', 'security']
const COMPONENTS = ['schemas', 'parameters', 'responses', 'headers', 'securitySchemes']

/**
 * Reads a contract. Rejects what the generator would otherwise have to ignore, and what the server
 * cannot serve. `check:contract` finds what OpenAPI does not allow.
 *
 * @throws SpecError for an unknown keyword or `x-` key, or an incomplete operation
 */
export async function readSpec(file: string): Promise<Spec> {
  const document = object(parse(await readFile(file, 'utf8')), 'the document')
  refuseUnknown(document, DOCUMENT, 'the document')
  const components = object(document.components ?? {}, 'components')
  refuseUnknown(components, COMPONENTS, 'components')
  const schemas: Record<string, JsonObject> = {}
  for (const [name, schema] of entries(components.schemas, 'components.schemas')) {
    schemas[name] = object(schema, name)
    checkSchema(schemas[name], `components.schemas.${name}`)
  }
  const operations: Operation[] = []
  for (const [path, item] of entries(document.paths, 'paths')) {
    const pathItem = object(item, path)
    refuseUnknown(pathItem, PATH_ITEM, path)
    for (const method of METHODS) {
      if (!(method in pathItem)) continue
      const operation = readOperation(document, schemas, path, method, pathItem)
      checkServable(operation, schemas)
      operations.push(operation)
    }
  }
  return { document, operations, schemas }
}

function readOperation(
  document: JsonObject,
  schemas: Schemas,
  path: string,
  method: string,
  pathItem: JsonObject,
): Operation {
  const where = `${method.toUpperCase()} ${path}`
  const operation = object(pathItem[method], where)
  refuseUnknown(operation, OPERATION, where)
  const parameters = [...list(pathItem.parameters), ...list(operation.parameters)]
  const { requestBody, 'x-replaces-by': replacesBy } = operation
  return {
    id: identifier(text(operation.operationId, `${where}: operationId`), where),
    summary: text(operation.summary, `${where}: summary`),
    method: method.toUpperCase(),
    path,
    access: readAccess(operation, where),
    replacesBy: replacesBy === undefined ? null : text(replacesBy, `${where}: x-replaces-by`),
    ...readSecurity(document, operation, where),
    scopes: list(operation['x-scopes']).map((scope) => text(scope, `${where}: x-scopes`)),
    parameters: readParameters(document, schemas, parameters, where),
    body: requestBody === undefined ? null : readBody(document, requestBody, where),
    replies: readReplies(document, object(operation.responses, `${where}: responses`), where),
  }
}

/** Checks an operationId, which becomes the name of types and methods. */
function identifier(id: string, where: string): string {
  if (/^[a-z][A-Za-z0-9]*$/.test(id)) return id
  throw new SpecError(`${where}: operationId ${id} is not in camel case`)
}

function readAccess(operation: JsonObject, where: string): Operation['access'] {
  const access = operation['x-access']
  if (access === 'read' || access === 'write') return access
  throw new SpecError(`${where}: x-access must be "read" or "write"`)
}

function readSecurity(
  document: JsonObject,
  operation: JsonObject,
  where: string,
): Pick<Operation, 'anonymous' | 'schemes'> {
  const schemes: string[] = []
  const requirements = list(operation.security ?? document.security)
  let anonymous = requirements.length === 0
  for (const requirement of requirements) {
    const [entry, ...others] = entries(requirement, `${where}: security`)
    if (others.length > 0) throw new SpecError(`${where}: a security requirement must name a single scheme`)
    if (entry === undefined) anonymous = true
    else {
      schemes.push(entry[0])
      // Tools know scopes of OAuth alone there.
      if (list(entry[1]).length > 0) throw new SpecError(`${where}: scopes of tokens are named by x-scopes`)
    }
  }
  return { anonymous, schemes }
}

function readBody(document: JsonObject, value: JsonValue, where: string): Operation['body'] {
  const body = resolve(document, value)
  refuseUnknown(body, BODY, `${where}: requestBody`)
  const limit = body['x-body-limit']
  if (typeof limit !== 'number')
    throw new SpecError(`${where}: requestBody must have an x-body-limit in bytes`)
  if (body.required !== true) throw new SpecError(`${where}: optional request bodies are not supported`)
  const schema = readContent(body, `${where}: requestBody`)
  if (schema === null) throw new SpecError(`${where}: requestBody must have the content application/json`)
  return { schema, limit }
}

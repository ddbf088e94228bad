import { readFile } from 'node:fs/promises'
import { entries, isObject, type Json, type JsonObject, list, object, text, typesOf } from './json.ts'

/** An operation, with all references resolved and null as one of the types of a schema. */
export interface Operation {
  id: string
  method: string
  /** Template as in the contract: `/api/v1/repos/{owner}`. */
  path: string
  access: string
  /** Names by which generators group operations into classes. */
  tags: string[]
  /** Field of the body by which a request replaces an earlier one. */
  replacesBy: string | null
  /** Whether a call without a credential is allowed. */
  anonymous: boolean
  /** Each requirement as `scheme: scope scope`; an empty text stands for anonymous access. */
  security: string[]
  parameters: Parameter[]
  body: RequestBody | null
  replies: Map<number, Reply>
}

export interface Parameter {
  name: string
  in: string
  required: boolean
  deprecated: boolean
  description: string
  schema: JsonObject
  examples: Json[]
}

interface RequestBody {
  mediaType: string
  schema: JsonObject
  /** Largest size in bytes. */
  limit: number
  examples: Json[]
}

export interface Reply {
  headers: { name: string; required: boolean; schema: JsonObject; examples: Json[] }[]
  /** null without a body. */
  content: { mediaType: string; schema: JsonObject; examples: Json[] } | null
}

export interface Contract {
  /** With all references resolved. */
  document: JsonObject
  version: string
  /** Origins and base paths, as written. */
  servers: string[]
  /** Security schemes as JSON, without their descriptions. */
  schemes: Map<string, string>
  operations: Operation[]
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete']

/** Reads a contract from a file or a document, independently of the generator. */
export async function readContract(source: string | JsonObject): Promise<Contract> {
  const unresolved = typeof source === 'string' ? await readDocument(source) : source
  const document = object(withNullTypes(resolveReferences(unresolved, unresolved, 0)), 'the contract')
  const operations = entries(document.paths).flatMap(([path, item]) =>
    entries(item)
      .filter(([method]) => METHODS.includes(method))
      .map(([method, operation]) =>
        readOperation(path, method, object(operation, path), object(item, path), document),
      ),
  )
  const { securitySchemes } = object(document.components ?? {}, 'components')
  return {
    document,
    version: text(object(document.info, 'info').version, 'info.version'),
    servers: list(document.servers).map((server) => text(object(server, 'server').url, 'server.url')),
    schemes: new Map(
      entries(securitySchemes).map(([name, scheme]) => {
        const { description: _, ...rules } = object(scheme, name)
        return [name, JSON.stringify(rules)]
      }),
    ),
    operations,
  }
}

/** Reads a contract without resolving references, so that it can be changed. */
export async function readDocument(file: string): Promise<JsonObject> {
  // Only loaded where it is needed, since most tests read the contract as JSON.
  const { parse } = await import('yaml')
  return object(parse(await readFile(file, 'utf8')), 'the contract')
}

/** Resolves references. @throws Error for a missing or circular reference */
function resolveReferences(document: JsonObject, value: Json, depth: number): Json {
  if (depth > 100) throw new Error('the contract contains a circular reference')
  if (Array.isArray(value)) return value.map((item) => resolveReferences(document, item, depth + 1))
  if (!isObject(value)) return value
  if (typeof value.$ref === 'string') {
    let target: Json = document
    for (const step of value.$ref.split('/').slice(1)) target = object(target, value.$ref)[step] ?? null
    const { $ref: _, ...beside } = value
    // Siblings of a reference extend it (OpenAPI 3.1) and take precedence here.
    return resolveReferences(document, { ...object(target, value.$ref), ...beside }, depth + 1)
  }
  const inner = Object.entries(value).map(([key, item]) => [
    key,
    resolveReferences(document, item, depth + 1),
  ])
  return Object.fromEntries(inner)
}

/**
 * Rewrites `oneOf` with null, the only supported use, as a list of types, which is easier to
 * compare and to mutate.
 */
function withNullTypes(value: Json): Json {
  if (Array.isArray(value)) return value.map(withNullTypes)
  if (!isObject(value)) return value
  const result = Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withNullTypes(inner)]))
  const { oneOf, ...beside } = result
  if (!Array.isArray(oneOf)) return result
  const [inner, nothing, ...others] = oneOf
  if (!isObject(inner) || JSON.stringify(nothing) !== '{"type":"null"}' || others.length > 0)
    throw new TypeError(`unsupported oneOf (expected a schema and null): ${JSON.stringify(oneOf)}`)
  return {
    ...inner,
    ...beside,
    type: [...typesOf(inner), 'null'],
    ...(Array.isArray(inner.enum) && { enum: [...inner.enum, null] }),
    ...(isObject(inner.not) && { not: { type: 'string', ...inner.not } }),
  }
}

function readOperation(
  path: string,
  method: string,
  operation: JsonObject,
  item: JsonObject,
  document: JsonObject,
): Operation {
  const id = text(operation.operationId, `${method} ${path}: operationId`)
  const security = list(operation.security ?? document.security)
  const replacesBy = operation['x-replaces-by']
  return {
    id,
    method: method.toUpperCase(),
    path,
    access: text(operation['x-access'], `${id}: x-access`),
    tags: list(operation.tags).map(String),
    replacesBy: replacesBy === undefined ? null : text(replacesBy, `${id}: x-replaces-by`),
    anonymous: security.length === 0 || security.some((entry) => entries(entry).length === 0),
    security: (security.length > 0 ? security : [{}]).map((requirement) =>
      entries(requirement)
        .map(([scheme, scopes]) => {
          // Until 1.3.0, scopes were among what a scheme requires.
          const required = [...list(scopes), ...list(operation['x-scopes'])]
          return `${scheme}: ${required.map(String).sort().join(' ')}`
        })
        .join(' and '),
    ),
    parameters: [...list(item.parameters), ...list(operation.parameters)].map((parameter) => {
      const value = object(parameter, `${id}: parameter`)
      const { name, in: place, required, deprecated, description, schema } = value
      return {
        name: text(name, `${id}: name`),
        in: text(place, `${id}: in`),
        required: required === true,
        deprecated: deprecated === true,
        description: text(description ?? '', `${id}: ${name}`),
        schema: object(schema, `${id}: ${name}`),
        examples: examplesOf(value),
      }
    }),
    body: isObject(operation.requestBody) ? readBody(operation.requestBody, id) : null,
    replies: new Map(
      entries(operation.responses).map(([status, reply]) => [
        Number(status),
        readReply(object(reply, id), id),
      ]),
    ),
  }
}

function readBody(body: JsonObject, id: string): RequestBody {
  const limit = body['x-body-limit']
  const content = readContent(body, id)
  if (!content || typeof limit !== 'number')
    throw new TypeError(`${id}: the request body has no limit or type`)
  return { ...content, limit }
}

function readReply(reply: JsonObject, id: string): Reply {
  return {
    headers: entries(reply.headers).map(([name, value]) => {
      const header = object(value, `${id}: ${name}`)
      return {
        name: name.toLowerCase(),
        required: header.required === true,
        schema: object(header.schema, `${id}: ${name}`),
        examples: examplesOf(header),
      }
    }),
    content: readContent(reply, id),
  }
}

function readContent(holder: JsonObject, id: string): Reply['content'] {
  const [entry, ...more] = entries(holder.content)
  if (!entry) return null
  if (more.length > 0) throw new TypeError(`${id}: more than one media type`)
  const [mediaType, media] = [entry[0], object(entry[1], id)]
  return { mediaType, schema: object(media.schema, `${id}: schema`), examples: examplesOf(media) }
}

/** Tells whether an operation has a commit as a path parameter. */
export function hasCommit({ parameters }: Operation): boolean {
  return parameters.some((parameter) => parameter.in === 'path' && parameter.name === 'sha')
}

/** Returns `example` and `examples` of a media type, a header or a parameter. */
export function examplesOf(holder: JsonObject): Json[] {
  const several = entries(holder.examples).map(([name, example]) => object(example, name).value ?? null)
  return holder.example === undefined ? several : [holder.example, ...several]
}

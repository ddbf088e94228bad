import { parse } from '@readme/openapi-parser'
import { entries, isObject, type Json, type JsonObject, list, object, text } from './json.ts'

/** One operation of a contract, with all references resolved. */
export interface Operation {
  id: string
  method: string
  /** As in the contract: `/api/v1/repos/{owner}`. */
  path: string
  access: string
  /** Whether the contract allows a call without a credential. */
  anonymous: boolean
  parameters: { name: string; schema: JsonObject }[]
  body: RequestBody | null
  replies: Map<number, Reply>
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
  /** null: no body. */
  content: { mediaType: string; schema: JsonObject; examples: Json[] } | null
}

export interface Contract {
  /** With all references resolved. */
  document: JsonObject
  version: string
  operations: Operation[]
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete']

/** Reads a contract from a file, or takes one that was read. Knows nothing of what is generated from it. */
export async function readContract(source: string | JsonObject): Promise<Contract> {
  const unresolved = typeof source === 'string' ? await readDocument(source) : source
  const document = object(resolveReferences(unresolved, unresolved, 0), 'the contract')
  const operations = entries(document.paths).flatMap(([path, item]) =>
    entries(item)
      .filter(([method]) => METHODS.includes(method))
      .map(([method, operation]) => readOperation(path, method, object(operation, path), object(item, path))),
  )
  return { document, version: text(object(document.info, 'info').version, 'info.version'), operations }
}

/** Reads a contract without resolving anything, so that it can be changed. */
export async function readDocument(file: string): Promise<JsonObject> {
  return object(await parse(file), 'the contract')
}

/** @throws Error for a reference into nothing, or into itself */
function resolveReferences(document: JsonObject, value: Json, depth: number): Json {
  if (depth > 100) throw new Error('a reference of the contract leads into itself')
  if (Array.isArray(value)) return value.map((item) => resolveReferences(document, item, depth + 1))
  if (!isObject(value)) return value
  if (typeof value.$ref === 'string') {
    let target: Json = document
    for (const step of value.$ref.split('/').slice(1)) target = object(target, value.$ref)[step] ?? null
    const { $ref: _, ...beside } = value
    // What stands beside a reference adds to it (OpenAPI 3.1); here it also has the last word.
    return resolveReferences(document, { ...object(target, value.$ref), ...beside }, depth + 1)
  }
  const inner = Object.entries(value).map(([key, item]) => [
    key,
    resolveReferences(document, item, depth + 1),
  ])
  return Object.fromEntries(inner)
}

function readOperation(path: string, method: string, operation: JsonObject, item: JsonObject): Operation {
  const id = text(operation.operationId, `${method} ${path}: operationId`)
  const security = list(operation.security)
  return {
    id,
    method: method.toUpperCase(),
    path,
    access: text(operation['x-access'], `${id}: x-access`),
    anonymous: security.length === 0 || security.some((entry) => entries(entry).length === 0),
    parameters: [...list(item.parameters), ...list(operation.parameters)].map((parameter) => {
      const { name, schema } = object(parameter, `${id}: parameter`)
      return { name: text(name, `${id}: name`), schema: object(schema, `${id}: ${name}`) }
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

/** `example` and `examples` of a media type, a header or a parameter. */
export function examplesOf(holder: JsonObject): Json[] {
  const several = entries(holder.examples).map(([name, example]) => object(example, name).value ?? null)
  return holder.example === undefined ? several : [holder.example, ...several]
}

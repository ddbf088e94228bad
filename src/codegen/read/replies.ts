import { entries, type JsonObject, object, refuseUnknown, resolve, SpecError } from '../document.ts'
import { checkSchema } from '../lint/keywords.ts'
import type { Header, Reply } from '../spec.ts'

/** Links are for people. */
const REPLY = ['description', 'headers', 'content', 'links']
const HEADER = ['description', 'required', 'schema', 'example']
const MEDIA = ['schema', 'example', 'examples']
const JSON_TYPE = 'application/json'

/**
 * Reads the responses of an operation.
 *
 * @throws SpecError for one that the generator does not understand
 */
export function readReplies(document: JsonObject, responses: JsonObject, where: string): Reply[] {
  return Object.entries(responses).map(([status, value]) => {
    if (!/^[1-5]\d\d$/.test(status)) throw new SpecError(`${where}: response ${status} is not a status code`)
    const here = `${where}: response ${status}`
    const reply = resolve(document, value)
    refuseUnknown(reply, REPLY, here)
    return {
      status: Number(status),
      schema: readContent(reply, here),
      headers: entries(reply.headers, `${here}: headers`).map(([name, header]) =>
        readHeader(name, resolve(document, header), `${here}: header ${name}`),
      ),
    }
  })
}

/**
 * Reads the schema of a body; null if there is none.
 *
 * @throws SpecError for any media type but JSON
 */
export function readContent(holder: JsonObject, where: string): JsonObject | null {
  if (holder.content === undefined) return null
  const content = object(holder.content, where)
  refuseUnknown(content, [JSON_TYPE], `${where}: content`)
  const media = object(content[JSON_TYPE], `${where}: ${JSON_TYPE}`)
  refuseUnknown(media, MEDIA, `${where}: ${JSON_TYPE}`)
  if (media.example === undefined && entries(media.examples, `${where}: examples`).length === 0)
    throw new SpecError(`${where}: an example of the body is missing`)
  const schema = object(media.schema, `${where}: schema`)
  checkSchema(schema, where)
  return schema
}

function readHeader(name: string, header: JsonObject, where: string): Header {
  refuseUnknown(header, HEADER, where)
  const schema = object(header.schema, where)
  checkSchema(schema, where)
  return { name, required: header.required === true, schema }
}

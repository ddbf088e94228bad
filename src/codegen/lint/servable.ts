import { list, object, type Schemas, SpecError } from '../document.ts'
import { handlerHeaders, isServerHeader } from '../headers.ts'
import { inlined } from '../schema.ts'
import type { Operation, Reply } from '../spec.ts'

/** Path parameters that name the repository, which authorization depends on. */
const REPOSITORY = ['owner', 'repo']

/**
 * Checks that the server can serve an operation.
 *
 * @throws SpecError naming the operation and its first problem
 */
export function checkServable(operation: Operation, schemas: Schemas): void {
  const { method, path, parameters, replies, body } = operation
  const refuse = (problem: string) => new SpecError(`${method} ${path} cannot be served: ${problem}`)
  for (const name of REPOSITORY)
    if (!parameters.path.some((parameter) => parameter.name === name))
      throw refuse(`the path parameter ${name} is missing: it names the repository that access depends on`)
  for (const status of serverReplies(operation))
    if (!replies.some((reply) => reply.status === status))
      throw refuse(`the response ${status} is missing: the server itself sends it`)
  if (method === 'GET' && body) throw refuse('a GET must not have a body')
  for (const reply of replies) {
    const problem = findReplyProblem(operation, reply, schemas)
    if (problem !== undefined) throw refuse(`response ${reply.status}: ${problem}`)
  }
}

/** Returns the responses that the server itself sends, before or after the handler runs. */
function serverReplies({ method, access, scopes, body, parameters }: Operation): number[] {
  return [
    ...(method === 'GET' ? [304] : []),
    ...[401, 404, 429, 503],
    ...(access === 'write' || scopes.length > 0 ? [403] : []),
    ...(body ? [400, 413, 415, 422] : []),
    ...(parameters.query.length > 0 || parameters.path.length > REPOSITORY.length ? [422] : []),
  ]
}

function findReplyProblem(
  { method, replies }: Operation,
  reply: Reply,
  schemas: Schemas,
): string | undefined {
  const { status, schema, headers } = reply
  if (status === 204 || status === 304) {
    if (schema !== null) return 'it must not have a body'
    if (status === 204) return undefined
    if (method !== 'GET') return 'only a GET is revalidated'
    // It replaces a 200 with the same content, and repeats the headers that the handler set there.
    const whole = replies.find(({ status }) => status === 200)
    const missing =
      whole && handlerHeaders(method, whole).find(({ name }) => !headers.some((set) => set.name === name))
    return missing && `the header ${missing.name} of 200 is missing`
  }
  if (status < 200 || (status >= 300 && status < 400)) return 'no handler can return it'
  if (schema === null) return 'it must have a body; use 204 for none'
  const { type, required, properties } = inlined(schemas, schema)
  if (status < 300)
    return type === 'object' || type === 'array' ? undefined : 'its body must be an object or an array'
  if (String(list(required)) !== 'error' || Object.keys(object(properties ?? {}, 'properties')).length !== 1)
    return 'its body must be an object with the single field error'
  const unset = headers.find(({ name, required }) => required && !isServerHeader(method, status, name))
  return unset && `the server never sets ${unset.name}`
}

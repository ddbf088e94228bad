import { list, object, type Schemas, SpecError } from '../document.ts'
import { handlerHeaders, isServerHeader } from '../headers.ts'
import { inlined } from '../schema.ts'
import type { Operation, Reply } from '../spec.ts'

/** Path parameters that name the repository, which authorization depends on. */
const REPOSITORY = ['owner', 'repo']
/** An operation that may lack `x-access`. */
export type Unchecked = Omit<Operation, 'access'> & { access: Operation['access'] | null }

/**
 * Asserts that the server can serve an operation, and returns it.
 *
 * @throws SpecError naming the operation and all of its problems
 */
export function assertServable(operation: Unchecked, schemas: Schemas): Operation {
  const { access, method, path } = operation
  const problems = [
    ...missingParameters(operation),
    ...missingReplies(operation),
    ...operation.replies.flatMap((reply) => unservableReply(operation, reply, schemas)),
  ]
  if (access === null) problems.unshift('x-access is missing: "read" or "write"')
  if (method === 'GET' && operation.body) problems.push('a GET must not have a body')
  if (access === null || problems.length > 0)
    throw new SpecError(`${method} ${path} cannot be served: ${problems.join('; ')}`)
  return { ...operation, access }
}

function missingParameters({ parameters }: Unchecked): string[] {
  const missing = REPOSITORY.filter((name) => !parameters.path.some((parameter) => parameter.name === name))
  return missing.length === 0
    ? []
    : [
        `the path parameters ${missing.join(' and ')} are missing: they name the repository that access depends on`,
      ]
}

/** Finds undeclared responses that the server itself sends, before or after the handler runs. */
function missingReplies(operation: Unchecked): string[] {
  const { method, access, scopes, body, parameters, replies } = operation
  const needed = new Set([401, 404, 429, 503])
  if (access === 'write' || scopes.length > 0) needed.add(403)
  if (body) for (const status of [400, 413, 415, 422]) needed.add(status)
  if (parameters.query.length > 0 || parameters.path.length > REPOSITORY.length) needed.add(422)
  if (method === 'GET') needed.add(304)
  const missing = [...needed].filter((needed) => !replies.some(({ status }) => status === needed)).sort()
  const found =
    missing.length > 0
      ? [`the responses ${missing.join(', ')} are missing: the server itself sends them`]
      : []
  return replies.some(({ status }) => status < 300) ? found : [...found, 'no response is a success']
}

function unservableReply(operation: Unchecked, reply: Reply, schemas: Schemas): string[] {
  const found = [...unservableStatus(operation, reply), ...unservableBody(reply, schemas)]
  if (reply.status >= 400) {
    for (const { name, required } of reply.headers) {
      if (required && !isServerHeader(operation.method, reply.status, name))
        found.push(`the server never sets ${name}`)
    }
  }
  return found.map((problem) => `response ${reply.status}: ${problem}`)
}

function unservableStatus(operation: Unchecked, { status, headers }: Reply): string[] {
  if (status !== 304)
    return status < 200 || (status >= 300 && status < 400) ? ['no handler can return it'] : []
  if (operation.method !== 'GET') return ['only a GET is revalidated']
  // It replaces a 200 with the same content, and repeats the headers that the handler set there.
  const set = handlerHeaders(
    operation,
    operation.replies.find((reply) => reply.status === 200),
  )
  return set
    .filter(({ name }) => !headers.some((header) => header.name === name))
    .map(({ name }) => `the header ${name} of 200 is missing`)
}

function unservableBody({ status, schema }: Reply, schemas: Schemas): string[] {
  if (status === 204 || status === 304) return schema ? ['it must not have a body'] : []
  if (schema === null) return ['it must have a body; use 204 for none']
  const { type, required, properties } = inlined(schemas, schema)
  if (status < 300)
    return type === 'object' || type === 'array' ? [] : ['its body must be an object or an array']
  const isError =
    String(list(required)) === 'error' && Object.keys(object(properties ?? {}, 'properties')).length === 1
  return isError ? [] : ['its body must be an object with the single field error']
}

/** Checks all links. @throws SpecError for a link to an unknown operation or with a parameter that it does not have */
export function checkLinks(operations: readonly Operation[]): void {
  for (const { method, path, replies } of operations) {
    for (const { name, operationId, parameters } of replies.flatMap(({ links }) => links)) {
      const target = operations.find(({ id }) => id === operationId)
      const where = `${method} ${path}: link ${name}`
      if (!target) throw new SpecError(`${where}: unknown operation ${operationId}`)
      const known = [...target.parameters.path, ...target.parameters.query].map((parameter) => parameter.name)
      const unknown = parameters.find((parameter) => !known.includes(parameter))
      if (unknown !== undefined) throw new SpecError(`${where}: ${operationId} has no parameter ${unknown}`)
    }
  }
}

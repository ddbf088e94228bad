import { list, object, SpecError } from './document.ts'
import { inlined } from './keywords.ts'
import type { Header, Reply } from './replies.ts'
import type { Operation, Spec } from './spec.ts'

/** Path parameters that name the repository whose access rules decide about every request. */
const REPOSITORY = ['owner', 'repo']
/** Headers that the server sets on every answer. */
const ON_EVERY_ANSWER = ['x-request-id', 'cache-control', 'vary', 'content-type', 'content-length', 'date']
/** Headers that the server sets on answers with one status. */
const BY_STATUS: Readonly<Record<number, string>> = {
  200: 'etag',
  304: 'etag',
  401: 'www-authenticate',
  429: 'retry-after',
  503: 'retry-after',
}

/** An operation as read, before it is known that its access is declared. */
export type Unchecked = Omit<Operation, 'access'> & { access: Operation['access'] | null }

/**
 * Returns the operation if the server can serve it.
 *
 * @throws SpecError naming the operation and all that is missing or in the way
 */
export function servable(operation: Unchecked, schemas: Spec['schemas']): Operation {
  const { access, method, path } = operation
  const problems = [
    ...missingParameters(operation),
    ...missingReplies(operation),
    ...operation.replies.flatMap((reply) => unservableReply(operation, reply, schemas)),
  ]
  if (access === null) problems.unshift('x-access is missing: "read" or "write"')
  if (method === 'GET' && operation.body) problems.push('a GET has no body')
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

/** Answers that the server gives for any operation of the kind, before the handler is called or after it. */
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
      ? [`the responses ${missing.join(', ')} are missing: the server gives them by itself`]
      : []
  return replies.some(({ status }) => status < 300) ? found : [...found, 'no response is a success']
}

function unservableReply(operation: Unchecked, reply: Reply, schemas: Spec['schemas']): string[] {
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
  if (status !== 304) return status < 200 || (status >= 300 && status < 400) ? ['no handler can give it'] : []
  if (operation.method !== 'GET') return ['only a GET is revalidated']
  // It stands for the 200 with the same content, and carries what the handler set there.
  const set = handlerHeaders(
    operation,
    operation.replies.find((reply) => reply.status === 200),
  )
  return set
    .filter(({ name }) => !headers.some((header) => header.name === name))
    .map(({ name }) => `${name} is missing, which 200 has`)
}

function unservableBody({ status, schema }: Reply, schemas: Spec['schemas']): string[] {
  if (status === 204 || status === 304) return schema ? ['it has no body'] : []
  if (schema === null) return ['it needs a body; without one the status is 204']
  const { type, required, properties } = inlined(schemas, schema)
  if (status < 300)
    return type === 'object' || type === 'array' ? [] : ['its body must be an object or an array']
  const isError =
    String(list(required)) === 'error' && Object.keys(object(properties ?? {}, 'properties')).length === 1
  return isError ? [] : ['its body must be an object with the one field error']
}

/** Returns the headers of a success that its handler has to set, or may set; the server sets the others. */
export function handlerHeaders({ method }: Pick<Operation, 'method'>, reply: Reply | undefined): Header[] {
  if (reply === undefined || reply.status >= 300) return []
  return reply.headers.filter(({ name }) => !isServerHeader(method, reply.status, name))
}

function isServerHeader(method: string, status: number, name: string): boolean {
  const lower = name.toLowerCase()
  if (lower === 'etag' && method !== 'GET') return false
  return ON_EVERY_ANSWER.includes(lower) || BY_STATUS[status] === lower
}

/** @throws SpecError for a link that leads to no operation or gives a parameter that it does not take. */
export function checkLinks(operations: readonly Operation[]): void {
  for (const { method, path, replies } of operations) {
    for (const { name, operationId, parameters } of replies.flatMap(({ links }) => links)) {
      const target = operations.find(({ id }) => id === operationId)
      const where = `${method} ${path}: link ${name}`
      if (!target) throw new SpecError(`${where}: there is no operation ${operationId}`)
      const known = [...target.parameters.path, ...target.parameters.query].map((parameter) => parameter.name)
      const unknown = parameters.find((parameter) => !known.includes(parameter))
      if (unknown !== undefined) throw new SpecError(`${where}: ${operationId} has no parameter ${unknown}`)
    }
  }
}

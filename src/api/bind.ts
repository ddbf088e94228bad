import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { AnyReply, Call } from '../../generated/handlers.ts'
import type { Scope } from '../../generated/operations.ts'
import { type ErrorCode, ServiceError, statusOf } from '../errors.ts'
import { checkBodyHeaders, readJsonBody } from '../http/body.ts'
import { createEncoder, type Encode } from './encoded-answers.ts'
import { type QuerySchema, queryReader } from './query.ts'
import { revalidate } from './revalidation.ts'
import { compileValidator, createAjv, type Schemas } from './validator.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** What the binding's `authorize` returned. */
    context: unknown
    /** Gives back what the request holds until its answer is serialized. */
    leave: (() => void) | null
  }
}

/** An operation as the generator writes it: all that binding it to a route takes. */
export interface Operation {
  readonly method: string
  readonly url: string
  readonly access: 'read' | 'write'
  readonly anonymous: boolean
  readonly schemes: readonly string[]
  readonly scopes: readonly Scope[]
  readonly params: object
  readonly query: QuerySchema | null
  readonly body: object | null
  readonly bodyLimit: number
  /** Schemas of bodies by status code; null: no body. */
  readonly replies: Readonly<Record<string, object | null>>
  /** Headers that the handler sets, as the schema of an object, by status code. */
  readonly headers: Readonly<Record<string, { readonly properties: object }>>
}

/** Path parameters. The generator refuses an operation without the two that name the repository. */
export interface PathParameters {
  owner: string
  repo: string
  [name: string]: string
}

export type OperationRequest = FastifyRequest<{ Params: PathParameters }>

export interface Binding<Context> {
  operations: Readonly<Record<string, Operation>>
  schemas: Schemas
  /** The handler of each operation, as the generated `callsTo` returns them. */
  calls: Readonly<Record<string, Call<Context>>>
  /** Names of the security schemes that `authorize` can read. */
  schemes: readonly string[]
  /** Decides whether the caller may go on, before a byte of the body is looked at. */
  authorize(request: OperationRequest, operation: Operation): Promise<Context>
  /** Milliseconds for a body to arrive. */
  bodyTimeout: number
  /** Checks every answer against its schema before it is serialized: a serializer hides what does not fit. */
  verifyReplies: boolean
}

/** Errors that belong to no operation: any request can meet them (openapi.yaml, "Errors"). */
const OF_NO_OPERATION: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'malformed_request',
  'malformed_url',
  'host_missing',
  'path_unknown',
  'method_wrong',
  'too_slow',
  'expectation_unknown',
  'headers_too_large',
  'internal',
])

/**
 * Serves every operation of a contract.
 *
 * @throws Error at start when an operation has no handler or names a security scheme that is not implemented
 */
export function bindOperations<Context>(app: FastifyInstance, binding: Binding<Context>): void {
  const ajv = createAjv(binding.schemas)
  for (const schema of Object.values(binding.schemas)) app.addSchema(schema)
  app.decorateRequest('context', null)
  app.decorateRequest('leave', null)
  app.setValidatorCompiler<object>(({ schema, httpPart }) => compileValidator(ajv, schema, httpPart))
  for (const [id, operation] of Object.entries(binding.operations)) {
    const unknown = operation.schemes.find((scheme) => !binding.schemes.includes(scheme))
    if (unknown) throw new Error(`${id}: the security scheme "${unknown}" is not implemented`)
    const call = binding.calls[id]
    if (call === undefined) throw new Error(`${id}: there is no handler`)
    bindOperation(app, binding, {
      id,
      operation,
      call,
      readQuery: operation.query && queryReader(ajv, operation.query),
      encode: createEncoder(),
      verify: binding.verifyReplies ? verifier(ajv, operation) : () => {},
    })
  }
}

/** Returns the error if the operation declares its status or it belongs to no operation; otherwise an internal one. */
export function declaredError(operation: Operation | undefined, error: ServiceError): ServiceError {
  const isDeclared = operation === undefined || statusOf(error.code) in operation.replies
  return isDeclared || OF_NO_OPERATION.has(error.code)
    ? error
    : new ServiceError('internal', undefined, { cause: error })
}

/** One operation with what is made of it once. */
interface Bound<Context> {
  id: string
  operation: Operation
  call: Call<Context>
  readQuery: ReturnType<typeof queryReader> | null
  encode: Encode
  verify(answer: AnyReply): void
}

function bindOperation<Context>(
  app: FastifyInstance,
  binding: Binding<Context>,
  bound: Bound<Context>,
): void {
  const { id, operation, call, readQuery, verify } = bound
  const replies = Object.entries(operation.replies).filter(([, schema]) => schema !== null)

  app.route<{ Params: PathParameters }>({
    // Fastify's own HEAD route cannot follow a GET that is answered 304.
    method: operation.method === 'GET' ? ['GET', 'HEAD'] : operation.method,
    exposeHeadRoute: false,
    url: operation.url,
    config: { operation: id },
    schema: {
      params: operation.params,
      ...(operation.body && { body: operation.body }),
      response: Object.fromEntries(replies),
    },
    async onRequest(request) {
      // The router takes an empty segment for a parameter; no name is empty.
      if (hasEmptyValue(request.params)) throw new ServiceError('path_unknown')
      request.context = await binding.authorize(request, operation)
      if (!operation.body) return
      checkBodyHeaders(request.raw, operation.bodyLimit)
      // Accepted here; Fastify would refuse it once more for a parameter that it cannot read.
      request.raw.headers['content-type'] = 'application/json'
    },
    // Before validation, and in place of Fastify's parsers, which check a body in another order and accept more.
    ...(operation.body && {
      async preValidation(request: FastifyRequest, reply: FastifyReply) {
        request.body = await readJsonBody(request.raw, reply.raw, operation.bodyLimit, binding.bodyTimeout)
      },
    }),
    async handler(request, reply) {
      try {
        const query = readQuery?.(request.raw.url ?? '')
        // The hook above stored what this binding's `authorize` returned.
        const context = request.context as Context
        const answer = await call({ params: request.params, query, body: request.body }, context)
        verify(answer)
        return await send(request, reply, bound, answer)
      } finally {
        request.leave?.()
      }
    },
  })
}

function hasEmptyValue(params: PathParameters): boolean {
  for (const name in params) if (params[name] === '') return true
  return false
}

/** Sends what a handler answered. @throws Error for a status that the operation does not declare as a success */
async function send(
  request: FastifyRequest,
  reply: FastifyReply,
  { operation, encode }: Pick<Bound<unknown>, 'operation' | 'encode'>,
  answer: AnyReply,
): Promise<FastifyReply> {
  const { status, headers } = answer
  if (operation.replies[status] === undefined || status >= 300) throw new Error(`${status} is not declared`)
  const isRevalidated = status === 200 && 304 in operation.replies
  // Before anything is set: an error would carry it.
  const content = isRevalidated ? await revalidate(request, reply, answer, encode) : null
  reply.code(content?.payload === null ? 304 : status).header('cache-control', 'private, no-cache')
  // Like fields of a body, headers that are not declared never leave the server.
  for (const name in operation.headers[status]?.properties) {
    const value = headers?.[name]
    if (value !== undefined) reply.header(name, String(value))
  }
  if (content === null) return reply.send(bodyOf(answer))
  reply.header('etag', content.etag)
  if (content.payload === null) return reply.send()
  return reply.type('application/json; charset=utf-8').send(content.payload)
}

function bodyOf({ body }: AnyReply): object | null {
  return typeof body === 'function' ? body() : body
}

/** Makes a function that throws for an answer that the contract does not declare, or whose body or headers break it. */
function verifier(ajv: ReturnType<typeof createAjv>, { replies, headers }: Operation) {
  const compile = (schemas: Readonly<Record<string, object | null>>, part: string) =>
    new Map(
      Object.entries(schemas).map(([status, schema]) => [
        Number(status),
        schema && compileValidator(ajv, schema, part),
      ]),
    )
  const bodies = compile(replies, 'reply')
  const headerSets = compile(headers, 'headers')
  return (answer: AnyReply): void => {
    const { status, headers = {} } = answer
    for (const result of [bodies.get(status)?.(bodyOf(answer)), headerSets.get(status)?.(headers)]) {
      if (result && 'error' in result) throw new Error(`reply ${status}: ${result.error?.message}`)
    }
  }
}

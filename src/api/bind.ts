import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { AnyReply, Call } from '../../generated/handlers.ts'
import type { Scope } from '../../generated/operations.ts'
import { type ErrorCode, ServiceError, statusOf } from '../errors.ts'
import { checkBodyHeaders, readJsonBody } from '../http/body.ts'
import { createEncoder, type Encode } from './encoded-answers.ts'
import { type QuerySchema, queryReader } from './query.ts'
import { revalidate } from './revalidation.ts'
import { ajvFor, compileValidator, type Schemas } from './validator.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The result of the binding's `authorize`. */
    context: unknown
    /** Releases what the request holds until its answer is serialized. */
    release: (() => void) | null
  }
}

/** An operation as written by the generator: everything needed to bind it to a route. */
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
  /** Body schemas by status code; null means no body. */
  readonly replies: Readonly<Record<string, object | null>>
  /** Object schemas of the headers that the handler sets, by status code. */
  readonly headers: Readonly<Record<string, { readonly properties: object }>>
}

/** Path parameters. The generator rejects an operation without the two that name the repository. */
export interface PathParameters {
  owner: string
  repo: string
  [name: string]: string
}

export type OperationRequest = FastifyRequest<{ Params: PathParameters }>

export interface Binding<Context> {
  operations: Readonly<Record<string, Operation>>
  schemas: Schemas
  /** The handler of each operation, as returned by the generated `callsTo`. */
  calls: Readonly<Record<string, Call<Context>>>
  /** Names of the security schemes that `authorize` supports. */
  schemes: readonly string[]
  /** Authorizes the caller, before any of the body is read. */
  authorize(request: OperationRequest, operation: Operation): Promise<Context>
  /** How long a body may take to arrive, in milliseconds. */
  bodyTimeout: number
  /** Whether to validate every answer before it is serialized: the serializer would hide what does not fit. */
  verifyReplies: boolean
}

/** Errors that any request can cause; no operation declares them (openapi.yaml, "Errors"). */
const COMMON_ERRORS: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
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
 * Adds a route for every operation of a contract.
 *
 * @throws Error when an operation has no handler or uses a security scheme that is not implemented
 */
export function bindOperations<Context>(app: FastifyInstance, binding: Binding<Context>): void {
  const ajv = ajvFor(binding.schemas)
  for (const schema of Object.values(binding.schemas)) app.addSchema(schema)
  app.decorateRequest('context', null)
  app.decorateRequest('release', null)
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

/** Returns the error if the operation declares its status or any request can cause it; otherwise an internal error. */
export function declaredError(operation: Operation | undefined, error: ServiceError): ServiceError {
  const isDeclared = operation === undefined || statusOf(error.code) in operation.replies
  return isDeclared || COMMON_ERRORS.has(error.code)
    ? error
    : new ServiceError('internal', undefined, { cause: error })
}

/** An operation with what was compiled from it. */
interface BoundOperation<Context> {
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
  bound: BoundOperation<Context>,
): void {
  const { id, operation, call, readQuery } = bound
  const replies = Object.entries(operation.replies).filter(([, schema]) => schema !== null)

  app.route<{ Params: PathParameters }>({
    // Fastify's automatic HEAD route fails when the GET handler answers 304.
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
      // The router matches empty segments, but no parameter can be empty.
      if (hasEmptyValue(request.params)) throw new ServiceError('path_unknown')
      request.context = await binding.authorize(request, operation)
      if (!operation.body) return
      checkBodyHeaders(request.raw, operation.bodyLimit)
      // Already checked. Fastify would reject parameters that it cannot parse.
      request.raw.headers['content-type'] = 'application/json'
    },
    // Runs before validation. Fastify's own parsers check bodies in another order and accept more.
    ...(operation.body && {
      async preValidation(request: FastifyRequest, reply: FastifyReply) {
        request.body = await readJsonBody(request.raw, reply.raw, operation.bodyLimit, binding.bodyTimeout)
      },
    }),
    async handler(request, reply) {
      try {
        const query = readQuery?.(request.raw.url ?? '')
        // Set by the hook above from this binding's `authorize`.
        const context = request.context as Context
        const answer = await call({ params: request.params, query, body: request.body }, context)
        return await send(request, reply, bound, answer)
      } finally {
        release(request)
      }
    },
  })
}

function release(request: OperationRequest): void {
  request.release?.()
  request.release = null
}

function hasEmptyValue(params: PathParameters): boolean {
  for (const name in params) if (params[name] === '') return true
  return false
}

/** Sends the reply of a handler. @throws Error for a status that the operation does not declare as a success */
async function send(
  request: OperationRequest,
  reply: FastifyReply,
  bound: Pick<BoundOperation<unknown>, 'operation' | 'encode' | 'verify'>,
  answer: AnyReply,
): Promise<FastifyReply> {
  const { operation, encode, verify } = bound
  const { status, headers, waitForChange } = answer
  verify(answer)
  if (operation.replies[status] === undefined || status >= 300) throw new Error(`${status} is not declared`)
  const isRevalidated = status === 200 && 304 in operation.replies
  // Comes first: an error thrown here must not carry the headers of a success.
  const content = isRevalidated ? await revalidate(request, reply, answer, encode) : null
  if (content?.payload === null && waitForChange) {
    release(request)
    // Not awaited here: while the request waits, nothing holds the answer.
    return waitForChange().then((next) => send(request, reply, bound, next))
  }
  reply.code(content?.payload === null ? 304 : status).header('cache-control', 'private, no-cache')
  // Like body fields, undeclared headers never leave the server.
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

/** Creates a function that throws for a reply that does not match the contract. */
function verifier(ajv: ReturnType<typeof ajvFor>, { replies, headers }: Operation) {
  return (answer: AnyReply): void => {
    const { status } = answer
    verify('reply', replies[status], bodyOf(answer))
    verify('headers', headers[status], answer.headers ?? {})

    // The validator compiles a schema once.
    function verify(part: string, schema: object | null | undefined, value: unknown): void {
      const result = schema && compileValidator(ajv, schema, part)(value)
      if (result && 'error' in result) throw new Error(`reply ${status}: ${result.error?.message}`)
    }
  }
}

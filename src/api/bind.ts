import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Call } from '../../generated/handlers.ts'
import type { Scope } from '../../generated/operations.ts'
import { type ErrorCode, ServiceError, statusOf } from '../errors.ts'
import { checkBodyHeaders, readJsonBody } from '../http/body.ts'
import { createUnsentLimit } from '../http/unsent.ts'
import { createSender, type DeclaredAnswers } from './answers.ts'
import { decodeQuery, type QuerySchema, queryReader } from './query.ts'
import { serializersFor } from './serializer.ts'
import { ajvFor, compileValidator, type Schemas } from './validator.ts'

/** An operation as written by the generator: everything needed to bind it to a route. */
export interface BoundOperation extends DeclaredAnswers {
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
}

/** Path parameters. The generator rejects an operation without the two that name the repository. */
export interface PathParameters {
  owner: string
  repo: string
  [name: string]: string
}

export type OperationRequest = FastifyRequest<{ Params: PathParameters }>

export interface Binding<Context> {
  operations: Readonly<Record<string, BoundOperation>>
  schemas: Schemas
  /** The handlers, by the ids of their operations. */
  calls: Readonly<Record<string, Call<Context>>>
  /** Names of the security schemes that `authorize` supports. */
  schemes: readonly string[]
  /** Authorizes the caller, before any of the body is read. */
  authorize(request: OperationRequest, operation: BoundOperation): Promise<Context>
  /** Returns the error to send when a call of an authorized caller failed. */
  explain(error: unknown, context: Context): Promise<unknown>
  /** How long a body may take to arrive, in milliseconds. */
  bodyTimeout: number
  /**
   * Whether to validate every answer before it is serialized: the serializer would hide what does
   * not fit.
   */
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
 * Adds a route for every operation of a contract. The app must leave the bodies of all methods to
 * their routes.
 *
 * @throws Error when an operation has no handler or uses a security scheme that is not implemented
 */
export function bindOperations<Context>(app: FastifyInstance, binding: Binding<Context>): void {
  const { operations, schemas, calls, authorize, explain, bodyTimeout } = binding
  const ajv = ajvFor(schemas)
  const limitUnsent = createUnsentLimit()
  const compileSerializer = serializersFor(schemas)
  for (const [id, operation] of Object.entries(operations)) {
    const unknown = operation.schemes.find((scheme) => !binding.schemes.includes(scheme))
    if (unknown) throw new Error(`${id}: the security scheme "${unknown}" is not implemented`)
    const call = calls[id]
    if (call === undefined) throw new Error(`${id}: there is no handler`)
    const { method, url, bodyLimit, replies } = operation
    const checkParams = compileValidator(ajv, operation.params, 'params')
    const checkBody = operation.body && compileValidator(ajv, operation.body, 'body')
    const readQuery = operation.query && queryReader(ajv, operation.query)
    const send = createSender(operation, limitUnsent, binding.verifyReplies ? ajv : null)

    app.route<{ Params: PathParameters }>({
      // Fastify's automatic HEAD route fails when the GET handler answers 304.
      method: method === 'GET' ? ['GET', 'HEAD'] : method,
      exposeHeadRoute: false,
      url,
      config: { operation: id },
      serializerCompiler: ({ schema }) => compileSerializer(schema),
      schema: {
        // Errors are sent as text. A serializer for each would take a third of the start of the app.
        response: Object.fromEntries(
          Object.entries(replies).filter(([status, schema]) => schema !== null && Number(status) < 300),
        ),
      },
      // "Order of checks" in src/README.md.
      async handler(request, reply) {
        const { params, raw } = request
        const { url = '' } = raw
        // The router matches empty segments, but no parameter can be empty.
        if (Object.values(params).includes('')) throw new ServiceError('path_unknown')
        const pairs = url.includes('?') ? decodeQuery(url) : []
        const context = await authorize(request, operation)
        let body: unknown
        if (checkBody) {
          checkBodyHeaders(raw, bodyLimit)
          body = await readJsonBody(raw, reply.raw, bodyLimit, bodyTimeout)
        }
        checkParams(params)
        checkBody?.(body)
        const query = readQuery?.(pairs)
        try {
          // Not returned: a reply is a thenable, for which a promise waits.
          send(request, reply, await call({ params, query, body }, context))
        } catch (error) {
          throw await explain(error, context)
        }
      },
    })
  }
}

/**
 * Returns the error if the operation declares its status or any request can cause it; otherwise an
 * internal error.
 */
export function declaredError(operation: BoundOperation | undefined, error: ServiceError): ServiceError {
  const isDeclared = operation === undefined || statusOf(error.code) in operation.replies
  return isDeclared || COMMON_ERRORS.has(error.code)
    ? error
    : new ServiceError('internal', undefined, { cause: error })
}

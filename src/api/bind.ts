import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ServiceError } from '../errors.ts'
import { checkBodyHeaders, readJsonBody } from '../http/body.ts'
import { sendRevalidated } from './revalidation.ts'
import { compileValidator, createAjv, type Schemas } from './validator.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** What the binding's `authorize` gave. */
    context: unknown
    /** Gives back what the request holds until its answer is serialized. */
    leave: (() => void) | null
  }
}

/** An operation as the generator writes it: all that binding it to a route takes. */
export interface Operation {
  readonly method: string
  readonly url: string
  readonly access: 'read' | 'write' | null
  readonly anonymous: boolean
  readonly schemes: readonly string[]
  readonly scopes: readonly string[]
  readonly params: object
  readonly body: object | null
  readonly bodyLimit: number
  readonly replies: Readonly<Record<string, object | null>>
}

export interface Binding<Context> {
  operations: Readonly<Record<string, Operation>>
  schemas: Schemas
  /** The generated interface, filled. */
  handlers: object
  /** Names of the security schemes that `authorize` can read. */
  schemes: readonly string[]
  /** Decides whether the caller may go on, before a byte of the body is looked at. */
  authorize(request: FastifyRequest, operation: Operation): Promise<Context>
  /** Milliseconds for a body to arrive. */
  bodyTimeout: number
  /** Checks every answer against its schema before it is serialized: a serializer hides what does not fit. */
  verifyReplies: boolean
}

/**
 * Serves every operation of a contract.
 *
 * @throws Error at start when an operation has no handler or names a security scheme that nobody implements
 */
export function bindOperations<Context>(app: FastifyInstance, binding: Binding<Context>): void {
  const ajv = createAjv(binding.schemas)
  for (const schema of Object.values(binding.schemas)) app.addSchema(schema)
  app.decorateRequest('context', null)
  app.decorateRequest('leave', null)
  app.setValidatorCompiler(({ schema, httpPart }) => compileValidator(ajv, Object(schema), httpPart))
  for (const [id, operation] of Object.entries(binding.operations)) {
    const unknown = operation.schemes.find((scheme) => !binding.schemes.includes(scheme))
    if (unknown) throw new Error(`${id}: nobody implements the security scheme "${unknown}"`)
    bindOperation(app, id, operation, binding, binding.verifyReplies ? verifier(ajv, operation) : undefined)
  }
}

function bindOperation<Context>(
  app: FastifyInstance,
  id: string,
  operation: Operation,
  binding: Binding<Context>,
  verify: ReturnType<typeof verifier> | undefined,
): void {
  const handler: unknown = Reflect.get(binding.handlers, id)
  if (typeof handler !== 'function') throw new Error(`${id}: there is no handler`)
  const replies = Object.entries(operation.replies).filter(([, schema]) => schema !== null)

  app.route({
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
      if (hasEmptyValue(Object(request.params))) throw new ServiceError('path_unknown')
      request.context = await binding.authorize(request, operation)
      if (!operation.body) return
      checkBodyHeaders(request.raw, operation.bodyLimit)
      // Accepted here; Fastify would refuse it once more for a parameter that it cannot read.
      request.raw.headers['content-type'] = 'application/json'
    },
    // Before validation, and in place of Fastify's parsers, which judge a body in another order and forgive more.
    ...(operation.body && {
      async preValidation(request: FastifyRequest, reply: FastifyReply) {
        request.body = await readJsonBody(request.raw, reply.raw, operation.bodyLimit, binding.bodyTimeout)
      },
    }),
    async handler(request, reply) {
      try {
        const call = { params: request.params, body: request.body }
        const answer = await Reflect.apply(handler, binding.handlers, [call, request.context])
        verify?.(answer)
        reply.code(answer.status).header('cache-control', 'private, no-cache')
        if (operation.method !== 'GET' || answer.status !== 200) return reply.send(answer.body)
        return await sendRevalidated(request, reply, answer.body)
      } finally {
        request.leave?.()
      }
    },
  })
}

function hasEmptyValue(params: Record<string, string>): boolean {
  for (const name in params) if (params[name] === '') return true
  return false
}

/** Refuses an answer that the contract does not declare, or whose body breaks its schema. */
function verifier(ajv: ReturnType<typeof createAjv>, operation: Operation) {
  const validators = new Map(
    Object.entries(operation.replies).map(([status, schema]) => [
      Number(status),
      schema && compileValidator(ajv, schema, 'reply'),
    ]),
  )
  return (answer: { status: number; body: unknown }): void => {
    const validate = validators.get(answer.status)
    if (validate === undefined) throw new Error(`${answer.status} is not declared`)
    const result = validate?.(answer.body)
    if (result && 'error' in result) throw new Error(`reply ${answer.status}: ${result.error.message}`)
  }
}

import type { Ajv2020 } from 'ajv/dist/2020.js'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AnyReply, Derived } from '../../generated/handlers.ts'
import { etagOf, matchesEtag } from '../http/etag.ts'
import type { createUnsentLimit } from '../http/unsent.ts'
import { compileValidator } from './validator.ts'

/** The answers that an operation declares. */
export interface DeclaredAnswers {
  /** Body schemas by status code; null means no body. */
  readonly replies: Readonly<Record<string, object | null>>
  /** Object schemas of the headers that the handler sets, by status code. */
  readonly headers: Readonly<Record<string, { readonly properties: object }>>
}

/** A body as it is sent, and its validator (RFC 9110, 8.8). */
interface EncodedBody {
  payload: string | Buffer
  etag: string
}

/**
 * Returns a body that is encoded once for a function and a source. Pass a function that is declared
 * where nothing but the source is in scope: one that is made for each call is encoded for each.
 *
 * @param source an object that stays the same as long as nothing in it changes
 */
export function derive<Source extends object, Body>(
  toBody: (source: Source) => Body,
  source: Source,
): Derived<Body> {
  return { toBody, source, body: () => toBody(source) }
}

/**
 * Characters. Node sends a shorter text in one piece with the headers; a longer one is worth
 * converting only once.
 */
const CONVERT_ONCE = 8 * 1024

/**
 * Returns a function that sends the reply of a handler. A 200 has an `ETag`, and becomes a 304 if
 * the caller has the same bytes already (RFC 9110, 13.1.2), where the operation declares one. A
 * derived body is encoded once: this is the only cache of encoded bodies.
 *
 * @param limitUnsent checks whether there is room for a body until it is sent
 * @param ajv validates every reply before it is serialized, which would hide what does not fit, and
 * compares cached bodies with new ones; null: nothing is validated
 */
export function createSender(
  declared: DeclaredAnswers,
  limitUnsent: ReturnType<typeof createUnsentLimit>,
  ajv: Ajv2020 | null,
) {
  const { replies, headers } = declared
  const verify = ajv && createVerifier(declared, ajv)
  /** Encoded bodies by their function and source. */
  const encodedBodies = new WeakMap<object, WeakMap<object, EncodedBody>>()

  function encode(reply: FastifyReply, answer: AnyReply): EncodedBody {
    const derived = 'derived' in answer ? answer.derived : null
    const cachedBody = derived && encodedBodies.get(derived.toBody)?.get(derived.source)
    if (cachedBody && !verify) return cachedBody
    const text = reply.serialize(bodyOf(answer)).toString()
    const payload = text.length > CONVERT_ONCE ? Buffer.from(text) : text
    const encoded = { payload, etag: etagOf(payload) }
    if (cachedBody && cachedBody.etag !== encoded.etag)
      throw new Error('a derived body depends on more than its source')
    if (derived) {
      const bySource = encodedBodies.get(derived.toBody) ?? new WeakMap<object, EncodedBody>()
      encodedBodies.set(derived.toBody, bySource.set(derived.source, encoded))
    }
    return encoded
  }

  /** @throws Error for a status that the operation does not declare as a success */
  return (request: FastifyRequest, reply: FastifyReply, answer: AnyReply): FastifyReply => {
    const { status } = answer
    verify?.(answer)
    if (replies[status] === undefined || status >= 300) throw new Error(`${status} is not declared`)
    // Comes first: an error thrown here must not carry the headers of a success.
    const encoded = status === 200 && 304 in replies ? encode(reply, answer) : null
    reply.header('cache-control', 'private, no-cache').header('vary', 'Authorization')
    // Like body fields, undeclared headers never leave the server.
    for (const name in headers[status]?.properties) {
      const value = answer.headers?.[name]
      if (value !== undefined) reply.header(name, String(value))
    }
    if (encoded === null) return reply.code(status).send(bodyOf(answer))
    reply.header('etag', encoded.etag)
    if (matchesEtag(request.headers['if-none-match'], encoded.etag)) return reply.code(304).send()
    limitUnsent(request, reply.raw, encoded.payload)
    return reply.type('application/json; charset=utf-8').send(encoded.payload)
  }
}

function bodyOf(answer: AnyReply): object | null {
  return 'derived' in answer ? answer.derived.body() : answer.body
}

/** Returns a function that throws for a reply that does not match the contract. */
function createVerifier({ replies, headers }: DeclaredAnswers, ajv: Ajv2020) {
  return (answer: AnyReply): void => {
    const { status } = answer
    // The validator compiles a schema once.
    for (const [part, schema, value] of [
      ['reply', replies[status], bodyOf(answer)],
      ['headers', headers[status], answer.headers ?? {}],
    ] as const) {
      try {
        if (schema) compileValidator(ajv, schema, part)(value)
      } catch (error) {
        throw new Error(`reply ${status}: ${error instanceof Error ? error.message : error}`, {
          cause: error,
        })
      }
    }
  }
}

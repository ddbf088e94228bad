import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AnyReply } from '../../generated/handlers.ts'
import { ServiceError } from '../errors.ts'
import { matchesEtag } from '../http/etag.ts'
import type { Encode } from './encoded-answers.ts'

/** Answers of more bytes count as large. */
const LARGE = 1024 ** 2
/** Maximum number of bytes of all large answers that are being sent. */
const MAX_IN_TRANSIT = 256 * 1024 ** 2

/**
 * Encodes the body of a 200 and its `ETag`. The payload is null if the caller has the same bytes already (RFC 9110,
 * 13.1.2).
 *
 * @throws ServiceError `unavailable` when too many bytes of large answers are being sent
 */
export async function revalidate(
  request: FastifyRequest,
  reply: FastifyReply,
  answer: AnyReply,
  encode: Encode,
): Promise<{ payload: string | Buffer | null; etag: string }> {
  const encoded = encode(answer, (body) => reply.serialize(body).toString())
  const { payload, etag } = encoded instanceof Promise ? await encoded : encoded
  if (matchesEtag(request.headers['if-none-match'], etag)) return { payload: null, etag }
  if (Buffer.isBuffer(payload) && payload.length > LARGE) holdWhileSent(payload, reply)
  return { payload, etag }
}

/** Number of responses that are sending each large answer. Its bytes are in memory once. */
const sending = new Map<Buffer, number>()
let bytesSending = 0

/**
 * Bounds the memory that slow clients can occupy: a large answer stays in memory until the last of them has read it.
 *
 * @throws ServiceError `unavailable` when large answers in transit take too much memory
 */
function holdWhileSent(payload: Buffer, { raw }: FastifyReply): void {
  // The client disconnected while its answer was being built.
  if (raw.destroyed) return
  const others = sending.get(payload) ?? 0
  if (others === 0) {
    if (bytesSending + payload.length > MAX_IN_TRANSIT) {
      throw new ServiceError('unavailable', undefined, {
        cause: new Error(`${bytesSending} bytes of large answers are being sent (limit: ${MAX_IN_TRANSIT})`),
      })
    }
    bytesSending += payload.length
  }
  sending.set(payload, others + 1)
  raw.once('close', () => {
    const left = (sending.get(payload) ?? 1) - 1
    if (left > 0) {
      sending.set(payload, left)
    } else {
      sending.delete(payload)
      bytesSending -= payload.length
    }
  })
}

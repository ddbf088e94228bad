import type { FastifyReply, FastifyRequest } from 'fastify'
import { ServiceError } from '../errors.ts'
import { SharedBudget } from '../util/shared-budget.ts'

/** Bytes from which on an answer counts while it is being sent, and bytes of all such answers. One client has half of them. */
const LARGE = 64 * 1024
const UNSENT = 64 * 1024 * 1024

/**
 * Returns a function that checks whether there is room for an answer until it is sent. Bytes that several answers share count
 * for the first of them.
 *
 * The function throws ServiceError `unavailable`.
 */
export function createUnsentLimit() {
  const unsent = new SharedBudget(UNSENT)
  const counted = new WeakSet<Buffer>()
  return (request: FastifyRequest, { raw }: FastifyReply, payload: unknown): void => {
    if (!Buffer.isBuffer(payload) || payload.length < LARGE || raw.destroyed || counted.has(payload)) return
    const { length } = payload
    const { address } = request.client
    if (!unsent.take(address, length)) throw new ServiceError('unavailable')
    counted.add(payload)
    raw.once('close', () => unsent.release(address, length))
  }
}

import type { FastifyRequest } from 'fastify'
import { connectionSignal } from '../../http/connection-signal.ts'
import { FairQueue } from '../../schedule/fair-queue.ts'

export type PageQueue = ReturnType<typeof createPageQueue>

/**
 * Creates the queue of pages. In each turn of the event loop at most one of them starts or is
 * rendered, however many are requested from however many addresses, so that API requests wait for
 * one page at most. With a remote database there may be two, of different clients, because one
 * waits for its rows while the other is rendered. At most as many are in memory together with what
 * was read for them. When too many requests wait, further ones are refused. A page that waits for
 * git is not in the queue. Its methods throw QueueFull, and ServiceError `malformed_request` if the
 * client has disconnected.
 */
export function createPageQueue(isRemote: boolean) {
  const queue = new FairQueue({
    slots: isRemote ? 2 : 1,
    slotsPerClient: 1,
    oncePerTurn: true,
  })
  const run = <T>({ client, raw }: FastifyRequest, work: () => T | Promise<T>) =>
    queue.run({ address: client.address, signal: connectionSignal(raw.socket) }, work)
  return {
    /** Waits until a page may start. */
    start: (request: FastifyRequest) => run(request, () => {}),
    /** Runs `render`, which reads what a page shows and renders it, when it is its turn. */
    render: run,
  }
}

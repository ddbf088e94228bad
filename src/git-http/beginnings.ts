import type { Server } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { FairQueue, type QueueClient } from '../schedule/fair-queue.ts'

/**
 * Milliseconds for which a request lets connections be accepted first, at most: on a busy machine a few
 * turns of the event loop may take longer, and each client waits for those before it.
 */
const MOST = 20

/**
 * Returns a function that waits for the turn of a fetch or push to begin: one after the other, clients
 * in turns, while no connections wait to be accepted.
 *
 * Node accepts one connection in each turn of the event loop, in order of arrival. So whoever connects
 * while hundreds of requests to git arrive at once would wait until all of these have begun. Until its
 * turn a request holds its connection and what the parser has read of it, which is no more than one read
 * of the socket.
 *
 * @param maxWait longest wait, in milliseconds
 */
export function createBeginnings(server: Server, maxWait: number) {
  const queue = new FairQueue({ slots: 1, slotsPerClient: 1, timeout: maxWait })
  let hasAccepted = false
  server.on('connection', () => {
    hasAccepted = true
  })

  async function untilAccepted(): Promise<void> {
    const end = performance.now() + MOST
    do {
      hasAccepted = false
      await setImmediate()
    } while (hasAccepted && performance.now() < end)
  }

  /** @throws QueueFull; the signal's reason */
  return (client: QueueClient): Promise<void> => queue.run(client, untilAccepted)
}

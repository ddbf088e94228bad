import type { FastifyInstance } from 'fastify'

/**
 * How long requests in progress may take, in milliseconds; about as long as proxies and service
 * managers wait.
 */
export const GRACE_PERIOD = 60_000

/**
 * Shuts down gracefully: accepts no new connections, finishes requests in progress, and closes each
 * connection once it is idle. Resolves when the app is closed.
 *
 * @param force aborts to close all connections at once
 * @param gracePeriod milliseconds after which all connections are closed
 */
export async function stopServing(
  app: FastifyInstance,
  force: AbortSignal,
  gracePeriod: number = GRACE_PERIOD,
): Promise<void> {
  const closeAll = () => app.server.closeAllConnections()
  setTimeout(closeAll, gracePeriod).unref()
  force.addEventListener('abort', closeAll)
  await app.close()
}

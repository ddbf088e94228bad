import type { FastifyInstance } from 'fastify'

/** Milliseconds for the requests under way; a proxy or a service manager waits about as long. */
const PATIENCE = 60_000

/**
 * Stops serving: takes no new connections, finishes the requests under way, and closes each connection as soon as
 * nothing is under way on it. Resolves when everything that belongs to the app is closed.
 *
 * @param hurry cuts off what is still under way when it is aborted
 * @param patience milliseconds after which that happens by itself
 */
export async function stopServing(
  app: FastifyInstance,
  hurry: AbortSignal,
  patience: number = PATIENCE,
): Promise<void> {
  const cut = () => app.server.closeAllConnections()
  const deadline = setTimeout(cut, patience)
  hurry.addEventListener('abort', cut)
  try {
    await app.close()
  } finally {
    clearTimeout(deadline)
    hurry.removeEventListener('abort', cut)
  }
}

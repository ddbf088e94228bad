import type { FastifyInstance } from 'fastify'

/** Milliseconds for the requests under way; a proxy or a service manager waits about as long. */
const PATIENCE = 60_000
/** How often connections are closed whose last request has been answered. Milliseconds. */
const INTERVAL = 50

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
  // Closing the server closes what is idle at that moment, and leaves open what becomes idle later.
  const sweep = setInterval(() => app.server.closeIdleConnections(), INTERVAL)
  hurry.addEventListener('abort', cut)
  try {
    await app.close()
  } finally {
    clearTimeout(deadline)
    clearInterval(sweep)
    hurry.removeEventListener('abort', cut)
  }
}

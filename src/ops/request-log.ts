import type { FastifyInstance } from 'fastify'
import { whoSent } from '../replies/client.ts'

/**
 * Logs one line per answered request at level `debug`. Omits the query, which may contain secrets.
 */
export function logRequests(app: FastifyInstance): void {
  if (app.log.level !== 'debug' && app.log.level !== 'trace') return
  app.addHook('onResponse', (request, reply, done) => {
    const [path] = request.url.split('?', 1)
    app.log.debug(
      {
        reqId: request.id,
        method: request.method,
        path,
        status: reply.statusCode,
        duration: Math.round(reply.elapsedTime * 1000) / 1000,
        client: request.client.address,
        ...whoSent(request),
      },
      'answered',
    )
    done()
  })
}

import type { FastifyInstance } from 'fastify'

/**
 * One line a request at the level `debug`, once it is answered. Without the query: nothing that is asked for there
 * needs to be known, and what a client puts there may be secret.
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
      },
      'answered',
    )
    done()
  })
}

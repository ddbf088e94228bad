import { once } from 'node:events'
import type { RequestListener, Server } from 'node:http'
import { connect, type Socket } from 'node:net'
import type { Test } from 'tap'
import {
  answerParserError,
  createHttpServer,
  DEFAULT_TIMEOUTS,
  type Timeouts,
} from '../../src/http/server.ts'
import { until } from '../helpers/until.ts'

/** An answer that is larger than the socket buffers of both sides. */
export const LARGE = Buffer.alloc(16 * 1024 * 1024, 'x')

/** Returns the bytes of a GET request. */
export function getBytes(path: string, ...headers: string[]): string {
  return `${[`GET ${path} HTTP/1.1`, 'Host: test', ...headers].join('\r\n')}\r\n\r\n`
}

/** Opens a connection. Nothing is read from it unless the test does so. */
export async function dial(t: Test, url: string): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true }).on('error', () => {})
  t.teardown(() => socket.destroy())
  await once(socket, 'connect')
  return socket
}

/** Starts the HTTP server without Fastify; `handle` answers its requests. */
export async function serve(t: Test, handle: RequestListener, timeouts: Partial<Timeouts> = {}) {
  const server = createHttpServer(handle, { ...DEFAULT_TIMEOUTS, ...timeouts })
  server.on('clientError', answerParserError)
  const sockets: Socket[] = []
  server.on('connection', (socket) => sockets.push(socket)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  if (typeof address !== 'object' || !address) throw new Error('the server does not listen on a port')
  return { server, sockets, url: `http://127.0.0.1:${address.port}` }
}

export function connectionsOf(server: Server): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  server.getConnections((error, count) => (error ? reject(error) : resolve(count)))
  return promise
}

/** Waits until the server has no connections. */
export function noConnections(server: Server): Promise<void> {
  return until(async () => (await connectionsOf(server)) === 0)
}

import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { hasCode } from '../../src/util/expected-errors.ts'

/** Lets a server listen on a port of 127.0.0.1, or on a free one. Returns the port. */
export async function listenLocally(server: Server, port = 0): Promise<number> {
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

/**
 * Returns a port of 127.0.0.1 on which nothing listens. It is below those that the system chooses, so
 * that it gives it to no other server in the meantime.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const server = createServer()
    try {
      const port = await listenLocally(server, 10_000 + randomInt(10_000))
      server.close()
      return port
    } catch (error) {
      if (!hasCode(error, 'EADDRINUSE')) throw error
    }
  }
}

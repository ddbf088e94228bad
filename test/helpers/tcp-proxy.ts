import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'

/** A way to a database which can be made to lead nowhere. */
export interface TcpProxy {
  /** The database's address by this way. */
  url: string
  /** From now on nothing passes on the connections that are open, nor do they end: their host is gone. */
  freeze(): void
}

/** Leads connections to the database of `url` through this process. */
export async function openTcpProxy(t: Test, url: string): Promise<TcpProxy> {
  const { hostname, port } = new URL(url)
  const pairs = new Set<[Socket, Socket]>()
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    client.pipe(upstream).pipe(client)
    pairs.add([client, upstream])
    for (const socket of [client, upstream]) socket.on('error', () => {})
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of [...pairs].flat()) socket.destroy()
    server.close()
  })
  const address = server.address()
  const detour = new URL(url)
  detour.port = typeof address === 'object' ? String(address?.port) : ''
  return {
    url: detour.href,
    freeze() {
      for (const [client, upstream] of pairs) {
        client.unpipe(upstream).pause()
        upstream.unpipe(client).pause()
      }
    },
  }
}

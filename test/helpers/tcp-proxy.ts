import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'

/** A TCP proxy in front of a database that can be made to drop all traffic. */
export interface TcpProxy {
  /** URL of the database through the proxy. */
  url: string
  /** Stops forwarding on open connections without closing them, as if the host were gone. */
  freeze(): void
}

/** Starts a proxy in this process that forwards connections to the database of `url`. */
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
  const proxied = new URL(url)
  proxied.port = typeof address === 'object' ? String(address?.port) : ''
  return {
    url: proxied.href,
    freeze() {
      for (const [client, upstream] of pairs) {
        client.unpipe(upstream).pause()
        upstream.unpipe(client).pause()
      }
    },
  }
}

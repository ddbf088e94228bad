import { connect, createServer, type Socket } from 'node:net'
import type { Test } from 'tap'
import { listenLocally } from './free-port.ts'

/** How a client sends it as a statement. */
const COMMIT = /\bcommit\b/i

/**
 * A TCP proxy in front of a database that can be made to drop all traffic, or to lead to another
 * one.
 */
export interface TcpProxy {
  /** URL of the database through the proxy. */
  url: string
  /** Stops forwarding on open connections without closing them, as if the host were gone. */
  freeze(): void
  /**
   * Closes the connection of the next transaction once PostgreSQL has committed it, before its client
   * gets the answer. Resolves then.
   */
  loseCommit(): Promise<void>
  /** Leads new connections elsewhere. Open ones stay where they are. */
  leadTo(url: string): void
}

/** Starts a proxy in this process that forwards connections to the database of `url`. */
export async function openTcpProxy(t: Test, url: string): Promise<TcpProxy> {
  let target = new URL(url)
  const pairs = new Set<[Socket, Socket]>()
  let commitLost: (() => void) | undefined
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname)
    client.pipe(upstream).pipe(client)
    client.on('data', (chunk) => {
      const lost = commitLost
      if (!lost || !COMMIT.test(chunk.toString('latin1'))) return
      commitLost = undefined
      upstream.unpipe(client)
      upstream.resume().once('data', () => {
        client.destroy()
        lost()
      })
    })
    const pair: [Socket, Socket] = [client, upstream]
    pairs.add(pair)
    for (const socket of pair) {
      socket.on('error', () => {})
      socket.on('close', () => {
        for (const other of pair) other.destroy()
        pairs.delete(pair)
      })
    }
  })
  const proxied = new URL(url)
  proxied.port = String(await listenLocally(server))
  t.teardown(() => {
    for (const socket of [...pairs].flat()) socket.destroy()
    server.close()
  })
  return {
    url: proxied.href,
    freeze() {
      for (const [client, upstream] of pairs) {
        client.unpipe(upstream).pause()
        upstream.unpipe(client).pause()
      }
    },
    loseCommit: () =>
      new Promise((resolve) => {
        commitLost = resolve
      }),
    leadTo(other) {
      target = new URL(other)
    },
  }
}

import { readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { addressKey, isTrusted, type TrustedProxies } from './address.ts'
import { isAtWork } from './pipelining.ts'

/** How many connections may be open at a time. */
export interface ConnectionLimits {
  total: number
  /** Of one client address. Trusted proxies are excepted. */
  perClient: number
}

/** Milliseconds between two log lines of the same text. */
const QUIET = 60_000
/** Milliseconds for which no connection is sought again that may be closed, if there was none. */
const PAUSE = 100
/** Connections of a client of which one is sought that may be closed for another client. */
const LOOKED_AT = 100

/**
 * Returns the default limits. Every connection is an open file, and so are the database,
 * repositories and pipes to git: half of the files remain for these, and seven eighths for other
 * clients than the busiest one.
 */
export function defaultConnectionLimits(): ConnectionLimits {
  const files = maxOpenFiles()
  return { total: Math.floor(files / 2), perClient: Math.floor(files / 8) }
}

/** Returns how many files this process may open: proc_pid_limits(5). Infinity on other systems. */
function maxOpenFiles(): number {
  if (process.platform !== 'linux') return Number.POSITIVE_INFINITY
  const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? []
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
}

/**
 * Returns a function that makes a server close connections above the limits as soon as they are
 * accepted. Several servers share the limits. Clients count by address, IPv6 by /64.
 *
 * Above the total, a connection on which no request is in progress gives way: of the client that has
 * most, if that is more than the new one's client will have.
 *
 * @param warn logs a connection that is closed; each text at most once a minute
 */
export function createConnectionLimiter(
  { total, perClient }: ConnectionLimits,
  proxies: TrustedProxies,
  warn: (details: { address: string; connections: number; clients: number }, text: string) => void,
): (server: Server) => Server {
  /** By client. Never holds an empty set. */
  const open = new Map<string, Set<Socket>>()
  let count = 0
  /** By text. */
  const quietUntil = new Map<string, number>()
  /** The latest search that found nothing, which takes milliseconds with a hundred thousand clients. */
  let vain = { most: 0, until: Number.NEGATIVE_INFINITY }

  function add(client: string, socket: Socket): void {
    const sockets = open.get(client) ?? new Set()
    open.set(client, sockets.add(socket))
    count++
    socket.once('close', () => remove(client, socket))
  }

  function remove(client: string, socket: Socket): void {
    const sockets = open.get(client)
    if (!sockets?.delete(socket)) return
    count--
    if (sockets.size === 0) open.delete(client)
  }

  /** Closes a connection of the client that has most, if it has more than `most`. */
  function makeRoom(most: number): boolean {
    if (most >= vain.most && performance.now() < vain.until) return false
    let largest: { client: string; socket: Socket; size: number } | undefined
    for (const [client, sockets] of open) {
      if (sockets.size <= (largest?.size ?? most)) continue
      const socket = findIdle(sockets)
      if (socket) largest = { client, socket, size: sockets.size }
    }
    if (!largest) {
      vain = { most, until: performance.now() + PAUSE }
      return false
    }
    const { client, socket, size } = largest
    warnOnce(client, size, 'idle ones of this address are closed for others')
    remove(client, socket)
    socket.destroy()
    return true
  }

  function warnOnce(address: string, connections: number, text: string): void {
    if (performance.now() < (quietUntil.get(text) ?? 0)) return
    quietUntil.set(text, performance.now() + QUIET)
    warn(
      { address, connections, clients: open.size },
      `Too many connections: ${text}. If this address is your proxy, add it to TRUSTED_PROXIES`,
    )
  }

  return (server) =>
    server.on('connection', (socket) => {
      const peer = socket.remoteAddress ?? ''
      const address = addressKey(peer)
      // Each connection of a trusted proxy counts as a client.
      const client = isTrusted(peer, proxies) ? `${peer} ${socket.remotePort}` : address
      const own = open.get(client)?.size ?? 0
      if (own < perClient && (count < total || makeRoom(own + 1))) {
        add(client, socket)
        return
      }
      warnOnce(address, own, 'new ones are closed')
      socket.destroy()
    })
}

function findIdle(sockets: Set<Socket>): Socket | undefined {
  let left = Math.min(sockets.size, LOOKED_AT)
  for (const socket of sockets) {
    if (!isAtWork(socket)) return socket
    if (--left === 0) return undefined
    // Others are looked at first the next time.
    sockets.delete(socket)
    sockets.add(socket)
  }
  return undefined
}

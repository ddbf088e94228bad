import { readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import { SharedBudget } from '../schedule/shared-budget.ts'
import { addressKey, isTrusted, type TrustedProxies } from './address.ts'

/** How many connections may be open at a time. */
export interface ConnectionLimits {
  total: number
  /** Of one client address. Trusted proxies are excepted. */
  perClient: number
}

/** Milliseconds between two log lines about refused connections. */
const QUIET = 60_000

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
 * @param warn logs a refusal, at most once a minute
 */
export function createConnectionLimiter(
  { total, perClient }: ConnectionLimits,
  proxies: TrustedProxies,
  warn: (details: { address: string; connections: number; clients: number }, text: string) => void,
): (server: Server) => Server {
  const connections = new SharedBudget(total, perClient)
  let quietUntil = Number.NEGATIVE_INFINITY

  function warnOfRefusal(address: string, client: string): void {
    if (performance.now() < quietUntil) return
    quietUntil = performance.now() + QUIET
    warn(
      { address, connections: connections.heldBy(client), clients: connections.clients },
      'Too many connections: new ones are closed. If this address is your proxy, add it to TRUSTED_PROXIES',
    )
  }

  return (server) =>
    server.on('connection', (socket) => {
      const peer = socket.remoteAddress ?? ''
      const address = addressKey(peer)
      // Each connection of a trusted proxy counts as a client.
      const client = isTrusted(peer, proxies) ? `${peer} ${socket.remotePort}` : address
      const connection = connections.open(client)
      if (connection.take(1)) {
        socket.once('close', () => connection.release())
        return
      }
      warnOfRefusal(address, client)
      socket.destroy()
    })
}

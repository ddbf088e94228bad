import { readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import { addressKey, isTrusted, type TrustedProxies } from '../auth/address.ts'

/** How many connections may be open at a time. */
export interface ConnectionLimits {
  total: number
  /** Of one client address. Trusted proxies are excepted. */
  perClient: number
}

/** Milliseconds between two log lines about refused connections. */
const QUIET = 60_000

/**
 * Returns the default limits. Every connection is an open file, and so are the database, repositories and pipes to git: half
 * of the files remain for these, and seven eighths for other clients than the busiest one.
 */
export function defaultConnectionLimits(): ConnectionLimits {
  const files = maxOpenFiles()
  return { total: Math.floor(files / 2), perClient: Math.floor(files / 8) }
}

/** Returns how many files this process may open: proc_pid_limits(5). Infinity on systems without that file. */
function maxOpenFiles(): number {
  if (process.platform !== 'linux') return Number.POSITIVE_INFINITY
  const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? []
  return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft)
}

/**
 * Returns a function that makes a server close connections above the limits as soon as they are accepted. Several servers
 * share the limits. Clients count by address, IPv6 by /64.
 *
 * @param warn logs a refusal, at most once a minute
 */
export function createConnectionLimiter(
  limits: ConnectionLimits,
  proxies: TrustedProxies,
  warn: (details: { address: string; connections: number }, text: string) => void,
): (server: Server) => Server {
  const open = new Map<string, number>()
  let total = 0
  let quietUntil = Number.NEGATIVE_INFINITY

  function refuse(address: string, connections: number): void {
    if (performance.now() < quietUntil) return
    quietUntil = performance.now() + QUIET
    warn(
      { address, connections },
      'Too many connections: new ones are closed. If this address is your proxy, add it to TRUSTED_PROXIES',
    )
  }

  return (server) =>
    server.on('connection', (socket) => {
      const peer = socket.remoteAddress ?? ''
      const address = addressKey(peer)
      const ofClient = open.get(address) ?? 0
      if (total >= limits.total || (ofClient >= limits.perClient && !isTrusted(peer, proxies))) {
        refuse(address, ofClient)
        socket.destroy()
        return
      }
      total++
      open.set(address, ofClient + 1)
      socket.once('close', () => {
        total--
        const left = (open.get(address) ?? 1) - 1
        if (left === 0) open.delete(address)
        else open.set(address, left)
      })
    })
}

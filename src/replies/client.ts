import type { FastifyInstance, FastifyRequest } from 'fastify'
import { addressKey, findClient, isTrusted, type TrustedProxies } from '../http/address.ts'
import type { Client } from './fastify.ts'

const FORWARDED = ['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host'] as const

/**
 * Adds `client` to every request. Ignores forwarding headers from other addresses than `proxies`,
 * and entries that are not addresses, and warns of each once.
 */
export function decorateClient(
  app: FastifyInstance,
  proxies: TrustedProxies,
  publicUrl: string | null,
): void {
  const warned = new Set<string>()

  function warnOnce(details: { reqId: string; peer: string; entry?: string }, text: string): void {
    if (warned.has(text)) return
    warned.add(text)
    app.log.warn(details, text)
  }

  function clientOf({ id, socket, headers }: FastifyRequest): Client {
    const peer = socket.remoteAddress ?? ''
    const trusted = isTrusted(peer, proxies)
    if (!trusted && FORWARDED.some((name) => name in headers)) {
      warnOnce(
        { reqId: id, peer },
        'X-Forwarded-* from an address that is not in TRUSTED_PROXIES: if this is your proxy, add it there; ' +
          'otherwise all its clients share one failure budget',
      )
    }
    const { address, unreadable } = trusted
      ? findClient(peer, headers['x-forwarded-for']?.toString(), proxies)
      : { address: peer }
    if (unreadable !== undefined) {
      warnOnce(
        { reqId: id, peer: address, entry: unreadable },
        'X-Forwarded-For of a proxy in TRUSTED_PROXIES has an entry that is not an address: ' +
          'until the proxy sends addresses, its clients share one failure budget',
      )
    }
    /** Returns the last entry of a list, which the nearest proxy wrote. */
    const forwarded = (name: (typeof FORWARDED)[number]) =>
      (trusted && headers[name]?.toString().split(',').at(-1)?.trim()) || undefined
    return {
      address: addressKey(address),
      origin() {
        const scheme = forwarded('x-forwarded-proto')?.toLowerCase() === 'https' ? 'https' : 'http'
        const host = forwarded('x-forwarded-host') ?? headers.host ?? 'localhost'
        return publicUrl ?? `${scheme}://${host}`
      },
    }
  }

  app.decorateRequest('knownClient', null)
  app.decorateRequest('caller', null)
  app.decorateRequest('session', null)
  app.decorateRequest('refusal', null)
  app.decorateRequest('client', {
    getter() {
      this.knownClient ??= clientOf(this)
      return this.knownClient
    },
  })
}

/** Returns who sent a request, for the log: names only. */
export function whoSent({ caller, session }: FastifyRequest): { user?: string; token_name?: string } {
  if (caller) return { user: caller.userName, token_name: caller.name }
  return session?.user ? { user: session.user.name } : {}
}

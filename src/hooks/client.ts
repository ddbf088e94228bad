import type { FastifyInstance, FastifyRequest } from 'fastify'
import { addressKey, clientAddress, isTrusted, type TrustedProxies } from '../auth/address.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The origin of the request, according to the connection and trusted proxies. */
    readonly client: Client
  }
}

const FORWARDED = ['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host'] as const

/** Adds `client` to every request. Ignores forwarding headers from other addresses than `proxies` and warns once. */
export function resolveClientAddress(app: FastifyInstance, proxies: TrustedProxies): void {
  let warned = false

  app.decorateRequest('client', {
    getter() {
      const peer = this.socket.remoteAddress ?? ''
      const trusted = isTrusted(peer, proxies)
      if (!trusted && !warned && FORWARDED.some((name) => name in this.headers)) {
        warned = true
        app.log.warn(
          { reqId: this.id, peer },
          'X-Forwarded-* from an address that is not in TRUSTED_PROXIES: if this is your proxy, add it there; ' +
            'otherwise all its clients share one failure budget',
        )
      }
      return new Client(peer, this.headers, trusted ? proxies : [])
    },
  })
}

class Client {
  readonly #peer: string
  readonly #headers: FastifyRequest['headers']
  readonly #proxies: TrustedProxies

  /** @param proxies empty if the peer is not a trusted proxy */
  constructor(peer: string, headers: FastifyRequest['headers'], proxies: TrustedProxies) {
    this.#peer = peer
    this.#headers = headers
    this.#proxies = proxies
  }

  /** The key by which failures are counted and resources are shared. */
  get address(): string {
    return addressKey(clientAddress(this.#peer, this.#forwarded('x-forwarded-for'), this.#proxies))
  }

  get secure(): boolean {
    return last(this.#forwarded('x-forwarded-proto'))?.toLowerCase() === 'https'
  }

  /** The origin that the client used: `https://status.example.org`. */
  get origin(): string {
    const host = last(this.#forwarded('x-forwarded-host')) ?? this.#headers.host ?? 'localhost'
    return `${this.secure ? 'https' : 'http'}://${host}`
  }

  #forwarded(name: (typeof FORWARDED)[number]): string | undefined {
    return this.#proxies.length > 0 ? this.#headers[name]?.toString() : undefined
  }
}

/** Returns the last entry of a list, which the nearest proxy wrote. */
function last(list: string | undefined): string | undefined {
  return list?.split(',').at(-1)?.trim() || undefined
}

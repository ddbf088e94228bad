import type { FastifyInstance, FastifyRequest } from 'fastify'
import { addressKey, clientAddress, isTrusted, type TrustedProxies } from '../auth/address.ts'

/** Where a request came from, as far as its proxies can be believed. */
interface Client {
  /** What failures are counted by. */
  address: string
  /** The origin that the client used: `https://status.example.org`. */
  origin: string
  secure: boolean
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Read from the headers when first asked for. */
    readonly client: Client
  }
}

const FORWARDED = ['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host'] as const

/** Gives every request its `client`. Forwarding headers of others than `proxies` are not believed, and warned of once. */
export function recogniseClients(app: FastifyInstance, proxies: TrustedProxies): void {
  const known = new WeakMap<FastifyRequest, Client>()
  let warned = false

  app.decorateRequest('client', {
    getter() {
      let client = known.get(this)
      if (!client) {
        client = clientOf(this)
        known.set(this, client)
      }
      return client
    },
  })

  function clientOf(request: FastifyRequest): Client {
    const peer = request.socket.remoteAddress ?? ''
    const trusted = isTrusted(peer, proxies)
    if (!trusted && !warned && FORWARDED.some((name) => name in request.headers)) {
      warned = true
      request.log.warn(
        { peer },
        'X-Forwarded-* from an address that is not in TRUSTED_PROXIES: behind a proxy all clients share one ' +
          'failure budget until it is listed there',
      )
    }
    const header = (name: (typeof FORWARDED)[number]) =>
      trusted ? request.headers[name]?.toString() : undefined
    const secure = last(header('x-forwarded-proto'))?.toLowerCase() === 'https'
    const host = last(header('x-forwarded-host')) ?? request.headers.host ?? 'localhost'
    return {
      address: addressKey(clientAddress(peer, header('x-forwarded-for'), proxies)),
      origin: `${secure ? 'https' : 'http'}://${host}`,
      secure,
    }
  }
}

/** Of a list the entry that the nearest proxy wrote. */
function last(list: string | undefined): string | undefined {
  return list?.split(',').at(-1)?.trim() || undefined
}

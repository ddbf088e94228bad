import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Caller } from '../auth/access-policy.ts'
import { addressKey, clientAddress, isTrusted, type TrustedProxies } from '../auth/address.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The origin of the request, according to the connection and trusted proxies. */
    readonly client: Client
    /** `client`, once it was asked for. */
    knownClient: Client | null
    /** The token that the request was authorized with; null: none, or not yet. */
    caller: Caller['token']
  }
}

const FORWARDED = ['x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host'] as const

/** Adds `client` to every request. Ignores forwarding headers from other addresses than `proxies` and warns once. */
export function decorateClient(app: FastifyInstance, proxies: TrustedProxies): void {
  let warned = false

  function clientOf({ id, socket, headers }: FastifyRequest): Client {
    const peer = socket.remoteAddress ?? ''
    const trusted = isTrusted(peer, proxies)
    if (!trusted && !warned && FORWARDED.some((name) => name in headers)) {
      warned = true
      app.log.warn(
        { reqId: id, peer },
        'X-Forwarded-* from an address that is not in TRUSTED_PROXIES: if this is your proxy, add it there; ' +
          'otherwise all its clients share one failure budget',
      )
    }
    return new Client(peer, headers, trusted ? proxies : null)
  }

  app.decorateRequest('knownClient', null)
  app.decorateRequest('caller', null)
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

class Client {
  /** The key by which failures are counted and resources are shared. */
  readonly address: string
  readonly #headers: FastifyRequest['headers']
  readonly #isProxied: boolean

  /** @param proxies null if the peer is not a trusted proxy */
  constructor(peer: string, headers: FastifyRequest['headers'], proxies: TrustedProxies | null) {
    this.#headers = headers
    this.#isProxied = proxies !== null
    this.address = addressKey(
      proxies ? clientAddress(peer, headers['x-forwarded-for']?.toString(), proxies) : peer,
    )
  }

  get secure(): boolean {
    return this.#forwarded('x-forwarded-proto')?.toLowerCase() === 'https'
  }

  /** The origin that the client used: `https://status.example.org`. */
  get origin(): string {
    const host = this.#forwarded('x-forwarded-host') ?? this.#headers.host ?? 'localhost'
    return `${this.secure ? 'https' : 'http'}://${host}`
  }

  /** Returns the last entry of a list, which the nearest proxy wrote. */
  #forwarded(name: (typeof FORWARDED)[number]): string | undefined {
    if (!this.#isProxied) return undefined
    return this.#headers[name]?.toString().split(',').at(-1)?.trim() || undefined
  }
}

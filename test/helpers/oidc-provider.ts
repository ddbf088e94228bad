import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type Configuration, type KoaContextWithOIDC, Provider } from 'oidc-provider'
import type { Test } from 'tap'
import type { OidcOptions } from '../../src/auth/oidc.ts'
import { listenLocally } from './free-port.ts'

/**
 * A real OpenID Connect provider on loopback, which asks for a name, accepts any password, and does not
 * ask whether the client may know the claims.
 */
export interface TestProvider {
  issuer: string
  /** Options of a server that signs people in with it. */
  options: OidcOptions
  /**
   * Claims by account, which is the subject too. Others have their account as name and belong to
   * `staff`.
   */
  accounts: Map<string, Record<string, unknown>>
  /** Answers a request instead of the provider, and returns true. */
  intercept: ((request: IncomingMessage, response: ServerResponse) => boolean) | null
  /** Paths that were asked for. */
  requests: string[]
  /**
   * Signs in as a browser does, from the URL of an authorization request. Returns the URL to which
   * the provider sends it back.
   */
  signIn(url: string, account: string): Promise<string>
  server: Server
}

const SECRET = 'a secret of the client'

/** Grants a client what it asks for. */
async function grantAll({ oidc }: KoaContextWithOIDC) {
  const [clientId, accountId] = [oidc.client?.clientId, oidc.account?.accountId]
  if (clientId === undefined || accountId === undefined) return undefined
  const grant = new oidc.provider.Grant({ clientId, accountId })
  grant.addOIDCScope('openid profile groups')
  await grant.save()
  return grant
}

/** Where a provider is that people reach through a proxy. */
export interface ProviderPlace {
  /** Without a slash at its end. */
  issuer: string
  /** On which the provider listens for the proxy. */
  port: number
  clientSecret: string
}

/**
 * Starts a provider. The teardown stops it.
 *
 * @param origin of the server that signs people in with it
 */
export async function startProvider(
  t: Pick<Test, 'teardown' | 'capture'>,
  origin: string,
  more: Configuration = {},
  place?: ProviderPlace,
): Promise<TestProvider> {
  const server = createServer((request, response) => {
    test.requests.push(request.url ?? '')
    if (test.intercept?.(request, response)) return
    // The proxy removes the path of the issuer.
    if (place) Object.assign(request, { originalUrl: new URL(issuer).pathname + request.url })
    handle(request, response)
  })
  const port = await listenLocally(server, place?.port)
  const issuer = place?.issuer ?? `http://127.0.0.1:${port}`
  const clientSecret = place?.clientSecret ?? SECRET
  const client = {
    redirect_uris: [`${origin}/login/callback`],
    post_logout_redirect_uris: [`${origin}/`],
    client_secret: clientSecret,
  }
  // It warns of what is only for development.
  t.capture(console, 'warn')
  const accounts: TestProvider['accounts'] = new Map()
  const claimsOf = (account: string) => ({
    sub: account,
    preferred_username: account,
    groups: ['staff'],
    ...accounts.get(account),
  })
  const provider = new Provider(issuer, {
    clients: [
      { client_id: 'commit-status', ...client },
      { client_id: 'another', ...client },
    ],
    claims: { openid: ['sub'], profile: ['preferred_username', 'name'], groups: ['groups'] },
    scopes: ['openid', 'profile', 'groups'],
    loadExistingGrant: grantAll,
    findAccount: (_context, accountId) => ({ accountId, claims: () => claimsOf(accountId) }),
    features: { devInteractions: { enabled: true } },
    cookies: { keys: ['a key'] },
    ...more,
  })
  provider.proxy = place !== undefined
  const handle = provider.callback()
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })

  async function signIn(url: string, account: string): Promise<string> {
    const cookies = new Map<string, string>()
    let next: { url: string; form?: URLSearchParams } = { url }
    for (let step = 0; step < 20; step++) {
      if (!next.url.startsWith(issuer)) return next.url
      const response = await fetch(next.url, {
        redirect: 'manual',
        headers: { cookie: [...cookies].map((pair) => pair.join('=')).join('; ') },
        ...(next.form && { method: 'POST', body: next.form }),
      })
      for (const line of response.headers.getSetCookie()) {
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
        cookies.set(name, value)
      }
      const location = response.headers.get('location')
      const page = await response.text()
      if (location !== null) {
        next = { url: new URL(location, next.url).href }
        continue
      }
      const [, action = ''] = /action="([^"]+)"/.exec(page) ?? []
      const [, prompt = ''] = /name="prompt" value="(\w+)"/.exec(page) ?? []
      if (prompt === '') throw new Error(`no form: ${response.status} ${page.slice(0, 2000)}`)
      const form = new URLSearchParams({
        prompt,
        ...(prompt === 'login' && { login: account, password: 'any' }),
      })
      next = { url: new URL(action, next.url).href, form }
    }
    throw new Error('too many redirects')
  }

  const test: TestProvider = {
    issuer,
    options: {
      issuer: `${issuer}/`,
      clientId: 'commit-status',
      clientSecret,
      nameClaim: 'preferred_username',
      requiredClaim: null,
    },
    accounts,
    intercept: null,
    requests: [],
    signIn,
    server,
  }
  return test
}

import { createHash } from 'node:crypto'
import * as client from 'openid-client'
import { ServiceError } from '../errors.ts'

export interface OidcOptions {
  /** URL of the provider, in the form of `URL.href`. Plain http only on loopback. */
  issuer: string
  clientId: string
  clientSecret: string
  /** Claim with the name of a new user. */
  nameClaim: string
  /** Claim and value without which nobody may sign in; null: everyone may. */
  requiredClaim: { name: string; value: string } | null
}

/** Errors with which providers refuse a code that they did not issue. */
const REFUSALS = ['invalid_grant', 'invalid_request']

export type Oidc = ReturnType<typeof createOidc>

/**
 * Milliseconds for all requests of one sign-in to the provider, and bytes of its largest answer.
 */
const TIMEOUT = 10_000
const MAX_ANSWER = 1024 * 1024
/** Milliseconds for which the provider's metadata are used. */
const LIFETIME = 600_000
const SERVER_ERROR = 500
/** Milliseconds for which a provider that failed is not asked again. */
const PAUSE = 5_000

/**
 * Creates a client of an OpenID Connect provider: authorization code flow with PKCE, state and
 * nonce. All methods throw ServiceError `provider_unavailable` if the provider does not answer, or
 * not as it should.
 *
 * @param redirectUri as registered with the provider
 */
export function createOidc(options: OidcOptions, redirectUri: string) {
  const { issuer, clientId, clientSecret, nameClaim, requiredClaim } = options
  const server = new URL(issuer)
  const authentication = client.ClientSecretBasic(clientSecret)
  const extensions = server.protocol === 'http:' ? [client.allowInsecureRequests] : []
  const needed = [nameClaim, ...(requiredClaim ? [requiredClaim.name] : [])]

  let discovered: Promise<client.Configuration> | undefined
  let discoveredAt = 0
  let expiresAt = 0
  let pausedUntil = 0

  /**
   * Runs a step of a sign-in with a configuration of its own: without cached keys, so that the
   * provider can rotate them at any time.
   */
  async function ask<T>(
    step: (configuration: client.Configuration, fetch: client.CustomFetch) => T | Promise<T>,
  ): Promise<T> {
    if (performance.now() < pausedUntil) throw unavailable(new Error('it failed a moment ago'))
    try {
      const bounded = boundedFetch(() => {
        pausedUntil = performance.now() + PAUSE
      })
      const discovery = { execute: extensions, [client.customFetch]: bounded }
      if (!discovered || performance.now() >= expiresAt) {
        discoveredAt = performance.now()
        expiresAt = discoveredAt + LIFETIME
        discovered = client.discovery(server, clientId, undefined, authentication, discovery)
      }
      const metadata = (await discovered).serverMetadata()
      if (!metadata.token_endpoint) throw new Error('there is no token endpoint')
      const configuration = new client.Configuration(metadata, clientId, undefined, authentication)
      for (const extend of [client.enableNonRepudiationChecks, ...extensions]) extend(configuration)
      return await step(configuration, bounded)
    } catch (error) {
      // The metadata may have changed. Strangers can cause errors, so not each one reads them
      // again.
      expiresAt = Math.min(expiresAt, discoveredAt + PAUSE)
      throw unavailable(error)
    }
  }

  return {
    issuer,
    /** The provider in words. */
    name: server.host,
    required: `${requiredClaim?.name}=${requiredClaim?.value}`,
    stateOf,

    /** Returns where the browser goes to sign in, and a secret, which it keeps for `finish`. */
    start: () =>
      ask(async (configuration) => {
        const secret = client.randomPKCECodeVerifier()
        const scopes = configuration.serverMetadata().scopes_supported
        const { href: url } = client.buildAuthorizationUrl(configuration, {
          redirect_uri: redirectUri,
          // Some providers release a claim only for the scope of its name.
          scope: ['openid', 'profile', ...needed.filter((name) => scopes?.includes(name))].join(' '),
          state: stateOf(secret),
          nonce: nonceOf(secret),
          code_challenge: await client.calculatePKCECodeChallenge(secret),
          code_challenge_method: 'S256',
        })
        return { url, secret }
      }),

    /**
     * Returns the person whom the provider sent back, with an empty name if the claim is missing,
     * and whether the required claim is met. Returns null if the browser's answer is wrong.
     *
     * @param query of the request to `redirectUri`, with its `?`
     */
    finish: (query: string, secret: string) =>
      ask(async (configuration, fetch) => {
        let hasAskedProvider = false
        configuration[client.customFetch] = (url, request) => {
          hasAskedProvider = true
          return fetch(url, request)
        }
        const checks = {
          expectedState: stateOf(secret),
          expectedNonce: nonceOf(secret),
          pkceCodeVerifier: secret,
        }

        const answer = new URL(redirectUri + query)
        const tokens = await client
          .authorizationCodeGrant(configuration, answer, checks)
          .catch((error: unknown) => {
            // Other errors of the token endpoint are about the server's settings, or the provider.
            const isRefused = error instanceof client.ResponseBodyError && REFUSALS.includes(error.error)
            // Before the provider is asked, only the browser can be wrong.
            if (isRefused || !hasAskedProvider) return null
            throw error
          })
        if (!tokens) return null

        const signed = { sub: '', ...tokens.claims() }
        if (!/^[ -~]{1,255}$/.test(signed.sub))
          throw new Error('the subject is not 1 to 255 ASCII characters')
        const isComplete = needed.every((name) => name in signed)
        const userInfo =
          !isComplete && configuration.serverMetadata().userinfo_endpoint
            ? await client.fetchUserInfo(configuration, tokens.access_token, signed.sub)
            : {}

        const claims: Record<string, unknown> = { ...userInfo, ...signed }
        const name = claims[nameClaim]
        const required = requiredClaim && [claims[requiredClaim.name]].flat()
        return {
          subject: signed.sub,
          name: typeof name === 'string' ? name : '',
          permitted: required?.some((value) => String(value) === requiredClaim?.value) ?? true,
        }
      }),

    /**
     * Returns where the browser goes to sign out at the provider; null if it has no such page.
     *
     * @param returnTo registered URL
     */
    endSession: (returnTo: string) =>
      ask((configuration) => {
        if (!configuration.serverMetadata().end_session_endpoint) return null
        return client.buildEndSessionUrl(configuration, { post_logout_redirect_uri: returnTo }).href
      }),
  }
}

/**
 * Return what binds an answer and its ID token to the browser with the secret, without revealing
 * it.
 */
const stateOf = (secret: string) => createHash('sha256').update(`state ${secret}`).digest('base64url')
const nonceOf = (secret: string) => createHash('sha256').update(`nonce ${secret}`).digest('base64url')

/**
 * Returns a fetch whose requests share one `TIMEOUT`, and whose answers have at most `MAX_ANSWER`
 * bytes.
 *
 * @param onFailure called when the provider does not answer, or with an error of its own: a person
 * who signs in cannot cause these
 */
function boundedFetch(onFailure: () => void): client.CustomFetch {
  const signal = AbortSignal.timeout(TIMEOUT)
  return async (url, { body, ...request }) => {
    const chunks: Uint8Array[] = []
    let length = 0
    let response: Response
    try {
      response = await fetch(url, { ...request, ...(body !== undefined && { body }), signal })
      const stream: AsyncIterable<Uint8Array> | null = response.body
      for await (const chunk of stream ?? []) {
        chunks.push(chunk)
        length += chunk.byteLength
        if (length > MAX_ANSWER) break
      }
      if (response.status >= SERVER_ERROR) onFailure()
    } catch (error) {
      onFailure()
      throw error
    }
    if (length > MAX_ANSWER) throw new Error('the answer is too large')
    return new Response(Buffer.concat(chunks), response)
  }
}

/**
 * Returns the error to answer with. The library's errors hold claims and tokens, so only their
 * codes are logged.
 */
function unavailable(error: unknown): ServiceError {
  const codes: string[] = []
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const code =
      cause instanceof client.ResponseBodyError ? cause.error : 'code' in cause ? cause.code : cause.name
    codes.push(/^\w{1,40}$/.exec(String(code))?.[0] ?? '')
  }
  const reason = new Error(`OpenID Connect provider: ${codes.join(' ')}`)
  return new ServiceError('provider_unavailable', undefined, { cause: reason })
}

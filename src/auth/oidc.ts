import { createHash } from 'node:crypto'
import * as client from 'openid-client'
import { ServiceError } from '../errors.ts'
import { type Asked, oauthCode, ProviderFault, providerError } from './provider-errors.ts'

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

/** Who has signed in at the provider. */
export interface Person {
  subject: string
  /** As the provider signed it. */
  idToken: string
  /** Empty if the claim is missing. */
  name: string
  /** Whether the required claim is met. */
  permitted: boolean
  /** Claims that the settings name and the provider did not send. */
  missing: string[]
  /** Whether the provider has left out groups because there are too many (Entra ID). */
  overflowed: boolean
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
const PAUSED = new Error('OpenID Connect provider: it failed a moment ago')

/**
 * Creates a client of an OpenID Connect provider: authorization code flow with PKCE, state and
 * nonce. All methods throw ServiceError: `provider_unavailable` if the provider does not answer,
 * `provider_mismatch` if its answer does not fit the settings here or the standard.
 *
 * @param redirectUri as registered with the provider
 */
export function createOidc(options: OidcOptions, redirectUri: string) {
  const { issuer, clientId, clientSecret, nameClaim, requiredClaim } = options
  const server = new URL(issuer)
  const extensions = server.protocol === 'http:' ? [client.allowInsecureRequests] : []
  const needed = [nameClaim, ...(requiredClaim ? [requiredClaim.name] : [])]

  const readClaims = (claims: Record<string, unknown>) => {
    const name = claims[nameClaim]
    const required = requiredClaim && [claims[requiredClaim.name]].flat()
    return {
      name: typeof name === 'string' ? name : '',
      permitted: required?.some((value) => String(value) === requiredClaim?.value) ?? true,
      missing: needed.filter((name) => claims[name] === undefined || claims[name] === null),
      overflowed: '_claim_names' in claims || 'hasgroups' in claims,
    }
  }

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
    if (performance.now() < pausedUntil)
      throw new ServiceError('provider_unavailable', undefined, { cause: PAUSED })
    const asked: Asked = {}
    try {
      const bounded = boundedFetch(asked, () => {
        pausedUntil = performance.now() + PAUSE
      })
      if (!discovered || performance.now() >= expiresAt) {
        discoveredAt = performance.now()
        expiresAt = discoveredAt + LIFETIME
        const discovery = { execute: extensions, [client.customFetch]: bounded }
        discovered = client
          .discovery(server, clientId, undefined, undefined, discovery)
          // Here, because others who wait for it have asked nothing.
          .catch((error: unknown) => {
            throw providerError(error, asked)
          })
      }
      const metadata = (await discovered).serverMetadata()
      if (!metadata.token_endpoint) throw new ProviderFault('there is no token endpoint')
      const authentication = authenticationFor(metadata, clientSecret)
      const configuration = new client.Configuration(metadata, clientId, undefined, authentication)
      for (const extend of [client.enableNonRepudiationChecks, ...extensions]) extend(configuration)
      return await step(configuration, bounded)
    } catch (error) {
      // The metadata may have changed. Strangers can cause errors, so not each one reads them
      // again.
      expiresAt = Math.min(expiresAt, discoveredAt + PAUSE)
      throw providerError(error, asked)
    }
  }

  return {
    issuer,
    /** The provider in words. */
    name: server.host,
    nameClaim,
    requiredClaim,
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
     * Returns the person whom the provider sent back, or the error with which the provider refused
     * the code.
     *
     * @param query of the request to `redirectUri`, with its `?`
     */
    finish: (query: string, secret: string) =>
      ask(async (configuration, fetch): Promise<Person | { refusedWith: string }> => {
        configuration[client.customFetch] = fetch
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
            if (error instanceof client.ResponseBodyError && REFUSALS.includes(error.error))
              return error.error
            throw error
          })
        if (typeof tokens === 'string') return { refusedWith: tokens }

        const signed = { sub: '', ...tokens.claims() }
        if (!/^[ -~]{1,255}$/.test(signed.sub))
          throw new ProviderFault('the subject is not 1 to 255 ASCII characters')
        const isComplete = needed.every((name) => name in signed)
        const userInfo =
          !isComplete && configuration.serverMetadata().userinfo_endpoint
            ? await client.fetchUserInfo(configuration, tokens.access_token, signed.sub)
            : {}
        const claims = readClaims({ ...userInfo, ...signed })
        return { subject: signed.sub, idToken: tokens.id_token ?? '', ...claims }
      }),

    /**
     * Returns where the browser goes to sign out at the provider; null if it has no such page.
     *
     * @param returnTo registered URL
     * @param idToken of the sign-in. Without it, some providers ask the person to confirm, or refuse.
     */
    endSession: (returnTo: string, idToken?: string) =>
      ask((configuration) => {
        if (!configuration.serverMetadata().end_session_endpoint) return null
        const parameters = {
          post_logout_redirect_uri: returnTo,
          ...(idToken !== undefined && { id_token_hint: idToken }),
        }
        return client.buildEndSessionUrl(configuration, parameters).href
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
 * Returns how the token endpoint accepts the secret: as a header, unless the provider lists only the
 * form.
 *
 * @throws ProviderFault if it lists neither
 */
function authenticationFor(
  { token_endpoint_auth_methods_supported: methods }: client.ServerMetadata,
  secret: string,
): client.ClientAuth {
  if (!methods || methods.includes('client_secret_basic')) return client.ClientSecretBasic(secret)
  if (methods.includes('client_secret_post')) return client.ClientSecretPost(secret)
  throw new ProviderFault('the token endpoint accepts neither client_secret_basic nor client_secret_post')
}

/**
 * Returns a fetch whose requests share one `TIMEOUT`, and whose answers have at most `MAX_ANSWER`
 * bytes.
 *
 * @param asked is set to the last request and its answer
 * @param onFailure called when the provider does not answer, or with an error of its own: a person
 * who signs in cannot cause these
 */
function boundedFetch(asked: Asked, onFailure: () => void): client.CustomFetch {
  const signal = AbortSignal.timeout(TIMEOUT)
  return async (url, { body, ...request }) => {
    asked.path = new URL(url).pathname
    delete asked.answer
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
    const { status, headers } = response
    const content = Buffer.concat(chunks)
    const type = /^[\w./+-]{1,60}/.exec(headers.get('content-type') ?? '')?.[0] ?? 'without a type'
    asked.answer = { status, type, error: response.ok ? undefined : errorOf(content) }
    if (length > MAX_ANSWER) throw new ProviderFault('the answer is too large')
    return new Response(content, response)
  }
}

/** Returns `error` of a JSON body. */
function errorOf(content: Buffer): string | undefined {
  try {
    const body: unknown = JSON.parse(content.toString())
    return typeof body === 'object' && body !== null && 'error' in body ? oauthCode(body.error) : undefined
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

import { scryptSync } from 'node:crypto'
import { EncryptJWT, jwtDecrypt } from 'jose'
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

/** A sign-in that has begun in a browser. Binds the provider's answer to it. */
interface Attempt {
  state: string
  nonce: string
  verifier: string
  /** Path to which sign-in returns. */
  next: string
}

/** A person whom the provider has authenticated. */
export interface Person {
  subject: string
  /** Empty if the name claim is missing. */
  name: string
  /** Whether the person has the required claim. */
  permitted: boolean
}

/** What the browser brought proves nothing: cancelled, forged, replayed or too old. */
export class SignInFailed extends Error {}

export type Oidc = ReturnType<typeof createOidc>

/** Milliseconds that the provider may take for all requests of one sign-in, and largest answer in bytes. */
const TIMEOUT = 10_000
const MAX_ANSWER = 1024 * 1024
/** Milliseconds for which the provider's metadata are used, and after which it is asked again when it did not answer. */
const METADATA_LIFETIME = 600_000
const METADATA_RETRY = 3_000
/** Seconds that people may take at the provider. */
export const ATTEMPT_LIFETIME = 600
/** OAuth errors of the token endpoint that are about the code. All others are about the server's settings, or the provider. */
const CODE_ERRORS = ['invalid_grant', 'invalid_request']

/**
 * Creates a client of an OpenID Connect provider: authorization code flow with PKCE, state and nonce. All methods throw
 * ServiceError `provider_unavailable` if the provider does not answer, or not as it should.
 *
 * @param redirectUri as registered with the provider
 */
export function createOidc(options: OidcOptions, redirectUri: string) {
  const { issuer, clientId, clientSecret, nameClaim, requiredClaim } = options
  const server = new URL(issuer)
  const authentication = client.ClientSecretBasic(clientSecret)
  const extensions = server.protocol === 'http:' ? [client.allowInsecureRequests] : []
  const needed = [nameClaim, ...(requiredClaim ? [requiredClaim.name] : [])]
  // The same in all instances. Slow to derive, in case people chose the secret.
  const key = scryptSync(clientSecret, 'OpenID Connect sign-in', 32)

  let known: { metadata: Promise<client.ServerMetadata>; until: number } | undefined
  /** Returns the provider's metadata. Callers share one request. */
  function discover(): Promise<client.ServerMetadata> {
    if (known && performance.now() < known.until) return known.metadata
    const more = { execute: extensions, [client.customFetch]: boundedFetch() }
    const metadata = client
      .discovery(server, clientId, undefined, authentication, more)
      .then((configuration) => {
        const found = configuration.serverMetadata()
        if (!found.token_endpoint || !Array.isArray(found.scopes_supported ?? []))
          throw new Error('the metadata are incomplete')
        // Throws if the endpoint is missing or wrong.
        client.buildAuthorizationUrl(configuration, {})
        return found
      })
      .catch(rethrow)
    const current = { metadata, until: performance.now() + METADATA_LIFETIME }
    metadata.catch(() => {
      current.until = performance.now() + METADATA_RETRY
    })
    known = current
    return metadata
  }

  /** Returns a configuration for one sign-in. It has no cache of keys, so that keys can be rotated at any time. */
  function configure(metadata: client.ServerMetadata): client.Configuration {
    const configuration = new client.Configuration(metadata, clientId, undefined, authentication)
    for (const extend of [client.enableNonRepudiationChecks, ...extensions]) extend(configuration)
    return configuration
  }

  return {
    issuer,
    /** The provider in words. */
    name: server.host,
    required: `${requiredClaim?.name}=${requiredClaim?.value}`,

    /** Returns where the browser goes to sign in, and the attempt, sealed, which it keeps for some minutes. */
    async start(next: string): Promise<{ url: string; sealed: string }> {
      const metadata = await discover()
      const verifier = client.randomPKCECodeVerifier()
      const attempt = { state: client.randomState(), nonce: client.randomNonce(), verifier, next }
      const { href: url } = client.buildAuthorizationUrl(configure(metadata), {
        redirect_uri: redirectUri,
        // Some providers release a claim only for the scope of its name.
        scope: [
          'openid',
          'profile',
          ...needed.filter((name) => metadata.scopes_supported?.includes(name)),
        ].join(' '),
        state: attempt.state,
        nonce: attempt.nonce,
        code_challenge: await client.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
      })
      const sealed = new EncryptJWT(attempt).setProtectedHeader({ alg: 'dir', enc: 'A256GCM' })
      return { url, sealed: await sealed.setExpirationTime(`${ATTEMPT_LIFETIME}s`).encrypt(key) }
    },

    /** Returns the attempt that a browser kept; null if it is none, or too old. */
    async resume(sealed: string): Promise<Attempt | null> {
      // Only `start` seals with this key.
      return jwtDecrypt<Attempt>(sealed, key).then(
        ({ payload }) => payload,
        () => null,
      )
    },

    /**
     * Returns the person whom the provider sent back.
     *
     * @param query of the request to `redirectUri`
     * @throws SignInFailed if the browser's answer is wrong
     */
    async finish(query: string, { state, nonce, verifier }: Attempt): Promise<Person> {
      const bounded = boundedFetch()
      const configuration = configure(await discover())
      let asked = false
      configuration[client.customFetch] = (url, request) => {
        asked = true
        return bounded(url, request)
      }
      const checks = {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      }
      try {
        const answer = new URL(`${redirectUri}?${query}`)
        const tokens = await client.authorizationCodeGrant(configuration, answer, checks)
        let claims = tokens.claims()
        // Some providers have an issuer for each tenant. A subject counts only together with its issuer.
        if (!claims || new URL(claims.iss).href !== issuer) throw new Error('the ID token has another issuer')
        const { sub } = claims
        if (!/^[ -~]{1,255}$/.test(sub)) throw new Error('the subject is not 1 to 255 ASCII characters')
        const isComplete = needed.every((name) => Object.hasOwn(claims ?? {}, name))
        if (!isComplete && configuration.serverMetadata().userinfo_endpoint)
          claims = { ...(await client.fetchUserInfo(configuration, tokens.access_token, sub)), ...claims }
        const { [nameClaim]: name, [requiredClaim?.name ?? '']: required } = claims
        const permitted = [required].flat().some((value) => String(value) === requiredClaim?.value)
        return {
          subject: sub,
          name: typeof name === 'string' ? name : '',
          permitted: !requiredClaim || permitted,
        }
      } catch (error) {
        const isWrong = error instanceof client.ResponseBodyError && CODE_ERRORS.includes(error.error)
        // Before the provider is asked, only the browser can be wrong.
        if (isWrong || !asked) throw new SignInFailed()
        return rethrow(error)
      }
    },

    /** Returns where the browser goes to sign out at the provider; null if it has no such page. @param returnTo registered URL */
    async endSession(returnTo: string): Promise<string | null> {
      const metadata = await discover()
      if (!metadata.end_session_endpoint) return null
      return client.buildEndSessionUrl(configure(metadata), { post_logout_redirect_uri: returnTo }).href
    },
  }
}

/** Returns a fetch whose requests end together after `TIMEOUT`, and whose answers are at most `MAX_ANSWER` long. */
function boundedFetch(): client.CustomFetch {
  const signal = AbortSignal.timeout(TIMEOUT)
  return async (url, { body, ...request }) => {
    const response = await fetch(url, { ...request, ...(body !== undefined && { body }), signal })
    const stream: AsyncIterable<Uint8Array> | null = response.body
    const chunks: Uint8Array[] = []
    let room = MAX_ANSWER
    for await (const chunk of stream ?? []) {
      room -= chunk.byteLength
      if (room < 0) throw new Error('the answer is too large')
      chunks.push(chunk)
    }
    return new Response(Buffer.concat(chunks), response)
  }
}

/**
 * @throws ServiceError `provider_unavailable`. The library's errors hold claims and tokens, and those of `JSON.parse` quote what
 * they read, so only fixed texts and codes are logged.
 */
function rethrow(error: unknown): never {
  const texts: string[] = []
  for (let cause = error; cause instanceof Error && !(cause instanceof SyntaxError); cause = cause.cause) {
    const code = cause instanceof client.ResponseBodyError ? cause.error : 'code' in cause ? cause.code : ''
    texts.push(`${cause.message} ${/^\w{1,40}$/.exec(String(code))?.[0] ?? ''}`.trim())
  }
  const reason = new Error(`OpenID Connect provider: ${texts.join(': ')}`)
  throw new ServiceError('provider_unavailable', undefined, { cause: reason })
}

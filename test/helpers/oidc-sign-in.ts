import type { Test } from 'tap'
import type { OidcOptions } from '../../src/auth/oidc.ts'
import { startProvider, type TestProvider } from './oidc-provider.ts'
import type { openPageClient, PageAnswer } from './page-client.ts'
import { type ServerOptions, startServer, type TestServer } from './server.ts'

/** Origin of servers under test, as the provider knows it. */
export const PUBLIC_URL = 'http://status.test'

export type PageClient = ReturnType<typeof openPageClient>

/** Starts a provider, and a server that signs people in with it. */
export async function startWithProvider(
  t: Test,
  { oidc, ...options }: ServerOptions = {},
  more: Parameters<typeof startProvider>[2] = {},
) {
  const provider = await startProvider(t, PUBLIC_URL, more)
  return { provider, server: await startBeside(t, { ...provider.options, ...oidc }, options) }
}

/** Starts a server that signs people in with a provider. */
export function startBeside(t: Test, oidc: OidcOptions, options: ServerOptions = {}): Promise<TestServer> {
  return startServer(t, { publicUrl: PUBLIC_URL, oidc, ...options })
}

/** Returns the cookies of the attempts that a browser has begun, by their names. */
export function attemptsOf(client: PageClient): Map<string, string> {
  return new Map([...client.cookies].filter(([name]) => name.startsWith('sign-in-')))
}

/** Goes to the provider and signs in there. Returns the path of the callback, with its query. */
export async function callbackOf(
  client: PageClient,
  provider: TestProvider,
  account: string,
  next = '/',
): Promise<string> {
  const started = await client.get(`/login/oidc?next=${encodeURIComponent(next)}`)
  const callback = await provider.signIn(started.headers.get('location') ?? '', account)
  return callback.replace(PUBLIC_URL, '')
}

/** Goes to the provider and comes back. Returns the answer to the callback. */
export async function signInWith(
  client: PageClient,
  provider: TestProvider,
  account: string,
  next = '/',
): Promise<PageAnswer> {
  return client.get(await callbackOf(client, provider, account, next))
}

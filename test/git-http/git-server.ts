import type { Test } from 'tap'
import type { AppOptions } from '../../src/app.ts'
import { parseCidr } from '../../src/auth/address.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { basic, createCheckout, git, workFolder } from './client.ts'
import { backendsOf, beginRefs, beginRpc, type RawAnswer, type RawRequest } from './raw.ts'

/** The first byte of any push; git waits for more. */
export const HALF_OPEN = '0'
export const EVERYTHING = '0000'

/** Starts a server with one repository, for clients of several addresses. */
export async function startGitServer(
  t: Test,
  limits: AppOptions['git'] = {},
  options: Partial<AppOptions> = {},
) {
  const trustedProxies = [parseCidr('127.0.0.1')]
  const server = await startServer(t, { git: limits, trustedProxies, ...options })
  const { path } = await server.createRepository('owner/demo')
  const authorization = basic('x', await server.createToken('owner'))
  const url = `${server.url}/owner/demo.git`
  const begun: RawRequest[] = []
  t.teardown(() => {
    for (const { request } of begun) request.destroy()
  })

  /** Begins a request from `address` and sends part of its body; declares `length` if given. */
  function begin(service: 'fetch' | 'push', address: string, part: string, length?: number): RawRequest {
    const raw = beginRpc(url, service === 'fetch' ? 'git-upload-pack' : 'git-receive-pack', authorization, {
      'x-forwarded-for': address,
      ...(length !== undefined && { 'content-length': String(length) }),
    })
    begun.push(raw)
    if (part === '') raw.request.flushHeaders()
    else raw.request.write(part)
    return raw
  }

  return {
    server,
    path,
    url,
    authorization,
    begin,
    /** Begins a push that takes a slot and holds it until `finish` is called. */
    async hold(address: string): Promise<RawRequest> {
      const before = backendsOf().length
      const raw = begin('push', address, HALF_OPEN)
      await until(() => backendsOf().length > before)
      return raw
    },
    refs(address: string): RawRequest {
      const raw = beginRefs(url, { 'x-forwarded-for': address })
      begun.push(raw)
      return raw
    },
    clone: () => git(workFolder(t), ['clone', '--quiet', url, 'clone']),
    async push(): Promise<void> {
      const checkout = await createCheckout(t, url)
      await git(checkout, ['push', '--quiet', 'origin', `HEAD:after-${begun.length}`], { authorization })
    },
  }
}

/** Sends the rest of `EVERYTHING` and returns the answer. */
export function finish({ request, answer }: RawRequest): Promise<RawAnswer> {
  request.end(EVERYTHING.slice(HALF_OPEN.length))
  return answer
}

/** Checks that a request was refused because slots or memory are used up. */
export function checkBusy(t: Test, { status, headers, body }: RawAnswer): void {
  t.equal(status, 503)
  t.ok(Number(headers['retry-after']) >= 1)
  t.equal(headers['content-type'], 'application/json; charset=utf-8')
  t.match(JSON.parse(body.toString()), { error: /^Too many git operations/ })
}

/** Counts the git processes that handle requests, until the returned function is called. */
export function watchBackends(server?: number): () => { most: number; started: number } {
  const seen = new Set<number>()
  let most = 0
  const timer = setInterval(() => {
    const backends = backendsOf(server)
    most = Math.max(most, backends.length)
    for (const pid of backends) seen.add(pid)
  }, 5)
  return () => {
    clearInterval(timer)
    return { most, started: seen.size }
  }
}

import { rmSync, writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { AppOptions } from '../../src/app.ts'
import type { GitService } from '../../src/git-http/service.ts'
import { parseCidr } from '../../src/http/address.ts'
import { replaceGit } from '../helpers/git.ts'
import { type ServerOptions, startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { basic, createCheckout, git, workFolder } from './client.ts'
import { beginRefs, beginRpc, pushBody, type RawAnswer, type RawRequest, servicesOf } from './raw.ts'

/** The first byte of any request to git. */
export const HALF_OPEN = '0'
/** The smallest whole requests on which git works: a fetch of nothing, and a push that it refuses. */
export const WHOLE = {
  fetch: '00000000',
  push: pushBody([`${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/main`], 'report-status').toString('latin1'),
}

/** Starts a server with one repository, for clients of several addresses. */
export async function startGitServer(t: Test, limits: AppOptions['git'] = {}, options: ServerOptions = {}) {
  const trustedProxies = [parseCidr('127.0.0.1')]
  const server = await startServer(t, { git: limits, trustedProxies, ...options })
  const { path } = await server.createRepository('owner/demo')
  const authorization = basic('x', await server.createToken('owner'))
  const url = `${server.url}/owner/demo.git`
  const begun: RawRequest[] = []
  const connections: Socket[] = []
  server.app.server.on('connection', (socket: Socket) => connections.push(socket))
  t.teardown(() => {
    for (const { request } of begun) request.destroy()
  })

  /** Begins a request from `address` and sends part of its body; declares `length` if given. */
  function begin(service: 'fetch' | 'push', address: string, part: string, length?: number): RawRequest {
    const isPush = service === 'push'
    const raw = beginRpc(url, isPush ? 'git-receive-pack' : 'git-upload-pack', isPush ? authorization : '', {
      'x-forwarded-for': address,
      ...(length !== undefined && { 'content-length': String(length) }),
    })
    begun.push(raw)
    if (part === '') raw.request.flushHeaders()
    else raw.request.write(part, 'latin1')
    return raw
  }

  return {
    server,
    path,
    url,
    authorization,
    begin,
    /** Waits until the server has read so many bytes of a request. */
    hasRead: ({ request }: RawRequest, bytes: number) =>
      until(() => {
        const port = request.socket?.localPort
        return connections.some(({ remotePort, bytesRead }) => remotePort === port && bytesRead >= bytes)
      }),
    /** Waits until the server has noticed that clients have closed all but so many connections. */
    areOpen: (count: number) =>
      until(() => connections.filter(({ destroyed }) => !destroyed).length <= count),
    /** Begins a push that takes a place and holds it until `finish` is called. */
    async hold(): Promise<Held> {
      const release = blockGit(t)
      const before = servicesOf().length
      const raw = begin('push', '127.0.0.2', WHOLE.push)
      raw.request.end()
      await until(() => servicesOf().length > before)
      return { ...raw, release }
    },
    /** Requests the list of refs that a fetch begins with. */
    refs(address: string, caller = ''): RawRequest {
      const raw = beginRefs(url, { 'x-forwarded-for': address, authorization: caller })
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

interface Held extends RawRequest {
  release(): void
}

/** Lets git go on and returns its answer. */
export function finish({ release, answer }: Held): Promise<RawAnswer> {
  release()
  return answer
}

/**
 * Makes git wait before it works on a request for a service, until the returned function is called.
 */
export function blockGit(t: Test, service: GitService | '' = ''): () => void {
  const block = join(workFolder(t), 'block')
  writeFileSync(block, '')
  replaceGit(
    t,
    `case "git-$1 $2" in "${service || 'git-'}"*" --stateless-rpc") while [ -e ${block} ]; do sleep 0.1; done;; esac
exec "$git" "$@"`,
  )
  return () => rmSync(block, { force: true })
}

/** Checks that a request was refused because slots or memory are used up, as git prints it. */
export function checkBusy(t: Test, { status, headers, body }: RawAnswer): void {
  const text = body.toString('latin1')
  if (status === 200) {
    t.match(text, /^....ERR Too many git operations|^000eunpack ok\n....ng \S+ Too many git operations/)
    return
  }
  t.equal(status, 503)
  t.ok(Number(headers['retry-after']) >= 1)
  t.equal(headers['content-type'], 'text/plain; charset=utf-8')
  t.match(text, /^Too many git operations.*\n$/)
}

/** Counts the git processes that handle requests, until the returned function is called. */
export function watchServices(server?: number): () => { most: number; started: number } {
  const seen = new Set<number>()
  let most = 0
  const timer = setInterval(() => {
    const services = servicesOf(server)
    most = Math.max(most, services.length)
    for (const pid of services) seen.add(pid)
  }, 5)
  return () => {
    clearInterval(timer)
    return { most, started: seen.size }
  }
}

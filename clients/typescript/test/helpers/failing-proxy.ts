import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import http from 'node:http'
import { createServer } from 'node:net'
import { buffer } from 'node:stream/consumers'
import type { Test } from 'tap'
import { hasCode } from '../../../../src/util/expected-errors.ts'

/** Ports of one process of tests. They are below those that the system chooses. */
const PORTS = 200

// So that no other server gets the port of a closed proxy.
const reserved = await reservePorts()
let lastPort = reserved

/** Reserves a range of ports by listening on its first one until the process ends. Returns that port. */
async function reservePorts(): Promise<number> {
  for (;;) {
    const port = 20_000 + PORTS * randomInt(60)
    const server = createServer()
    try {
      await once(server.listen(port, '127.0.0.1'), 'listening')
      server.unref()
      return port
    } catch (error) {
      if (!hasCode(error, 'EADDRINUSE')) throw error
    }
  }
}

function nextPort(): number {
  if (++lastPort === reserved + PORTS) throw new Error(`more than ${PORTS - 1} proxies in one process`)
  return lastPort
}

/** What happens to one request on its way. */
type Failure =
  | 'pass'
  /** Nothing ever comes back, and nothing arrives. */
  | 'hang'
  /** The request arrives, the answer is lost. */
  | 'reset'
  /** Arrives once this is fulfilled, whether or not its sender still waits. */
  | { heldUntil: Promise<unknown> }
  /** Answered by the proxy itself. */
  | { status: number; headers?: Record<string, string>; body?: string; heldUntil?: Promise<unknown> }

/** One request that came to the proxy, and what was answered. */
interface Passage {
  method: string
  url: string
  headers: http.IncomingHttpHeaders
  body: string
  /** Milliseconds by `performance.now()`. */
  at: number
  /** 0 until an answer was sent. */
  status: number
}

/** A proxy before a real server that does to each request what the test says. */
export interface FailingProxy {
  url: string
  passages: Passage[]
  /** What the next requests meet; those after them pass. */
  plan(...failures: Failure[]): void
  /** What every request meets whose method and path match, until it is `pass` again. */
  always(matching: RegExp, failure: Failure): void
  /** Removes what is planned. */
  dropPlan(): void
  /** Refuses connections until `open` is called. */
  close(): Promise<void>
  open(): Promise<void>
  /** Resolves when so many requests have come. */
  reached(count: number): Promise<void>
  /** Resolves when so many requests have come to the server. */
  arrived(count: number): Promise<void>
  /** Resolves when so many requests have been answered. */
  answered(count: number): Promise<void>
}

/** Starts a proxy before `target`; it ends with the test. */
export async function startFailingProxy(t: Test, target: string): Promise<FailingProxy> {
  const planned: Failure[] = []
  const lasting = new Map<string, { matching: RegExp; failure: Failure }>()
  const passages: Passage[] = []
  let arrivals = 0
  const watchers = new Set<() => void>()
  const server = http.createServer(async (request, response) => {
    const { method = '', url = '', headers } = request
    const passage: Passage = { method, url, headers, body: '', at: performance.now(), status: 0 }
    const always = [...lasting.values()].find(({ matching }) => matching.test(`${method} ${url}`))
    const failure = always?.failure ?? planned.shift() ?? 'pass'
    const body = await buffer(request)
    passage.body = body.toString()
    passages.push(passage)
    look()
    if (failure === 'hang') return
    if (typeof failure === 'object' && 'heldUntil' in failure) await failure.heldUntil
    if (typeof failure === 'object' && 'status' in failure) {
      response.writeHead(failure.status, failure.headers).end(failure.body ?? '{"error":"out of order"}')
      passage.status = failure.status
      look()
      return
    }
    const answer = await forward(target, passage, body).catch(() => undefined)
    arrivals += 1
    if (failure === 'reset' || !answer) {
      request.socket.resetAndDestroy()
      return
    }
    response.writeHead(answer.status, answer.headers).end(answer.body)
    passage.status = answer.status
    look()
  })
  const look = () => {
    for (const watch of watchers) watch()
  }
  let port = nextPort()
  async function open() {
    await once(server.listen(port, '127.0.0.1'), 'listening')
  }
  async function close() {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  function until(isReached: () => boolean) {
    return new Promise<void>((resolve) => {
      function watch() {
        if (!isReached()) return
        watchers.delete(watch)
        resolve()
      }
      watchers.add(watch)
      watch()
    })
  }
  for (let isOpen = false; !isOpen; )
    try {
      await open()
      isOpen = true
    } catch (error) {
      if (!hasCode(error, 'EADDRINUSE')) throw error
      port = nextPort()
    }
  t.teardown(close)
  return {
    url: `http://127.0.0.1:${port}`,
    passages,
    plan: (...failures) => void planned.push(...failures),
    always: (matching, failure) => void lasting.set(matching.source, { matching, failure }),
    dropPlan: () => void planned.splice(0),
    close,
    open,
    reached: (count) => until(() => passages.length >= count),
    arrived: (count) => until(() => arrivals >= count),
    answered: (count) => until(() => passages.filter(({ status }) => status > 0).length >= count),
  }
}

function forward(target: string, { method, url, headers }: Passage, body: Buffer) {
  return new Promise<{ status: number; headers: http.IncomingHttpHeaders; body: Buffer }>(
    (resolve, reject) => {
      const request = http.request(target + url, { method, headers, agent: false }, (response) => {
        const { statusCode: status = 0, headers } = response
        buffer(response).then((body) => resolve({ status, headers, body }), reject)
      })
      request.on('error', reject).end(body)
    },
  )
}

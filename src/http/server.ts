import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http'
import type { Socket } from 'node:net'
import { defaultMessage, type ErrorCode, statusOf } from '../errors.ts'
import { CompactRequest, headerValues } from './incoming.ts'
import { abortBody, isClosing, lingeringClose, responsesWithLingeringClose } from './lingering-close.ts'
import { endAfterAnswer, lastResponseOf, servePipelinedInTurn } from './pipelining.ts'

/** Milliseconds that a client has for each step before the server gives up. */
export interface Timeouts {
  /** From the first byte of a request to the end of its headers. */
  headers: number
  /** From the end of the headers to the end of a body. */
  body: number
  /** Between two requests of a connection. */
  idle: number
  /**
   * The same for a proxy. A request that it sends on a connection that is just being closed is lost
   * or answered with 502, so it must be the proxy that closes idle connections. Of those in use,
   * load balancers of Google Cloud keep them longest: 600 s.
   */
  proxyIdle: number
  /**
   * Without progress of an unsent answer. The connection is closed after at most twice this time.
   */
  write: number
}

export const DEFAULT_TIMEOUTS: Timeouts = {
  headers: 10_000,
  body: 20_000,
  idle: 65_000,
  proxyIdle: 620_000,
  write: 20_000,
}

/**
 * Milliseconds in which requests are still started after their client has ended its half of the
 * connection, and in which the last one is answered. One that has disconnected looks the same until
 * it gets an answer.
 */
const HALF_OPEN = { started: 2_000, answered: 10_000 }
/** Milliseconds between two sweeps that close idle connections while the server stops. */
const SWEEP = 50
const MAX_HEADER_BYTES = 16 * 1024

/**
 * Creates an http.Server whose built-in responses (400, 408, 417, 431, 100) follow the contract.
 *
 * @param isProxy returns whether an address is that of a trusted proxy; by default none is
 */
export function createHttpServer(
  handle: RequestListener,
  timeouts: Timeouts,
  isProxy: (address: string) => boolean = () => false,
): Server {
  const server = createServer({
    IncomingMessage: CompactRequest,
    ServerResponse: responsesWithLingeringClose(timeouts.body),
    maxHeaderSize: MAX_HEADER_BYTES,
    requireHostHeader: false,
    headersTimeout: timeouts.headers,
    // The code that reads a body has its own timeout: a large push may take longer than any limit
    // that all bodies share.
    requestTimeout: 0,
    // Node would start a timer with each answer and another one with the next request instead.
    // `endStalled` knows idle connections.
    keepAliveTimeout: 0,
    connectionsCheckingInterval: 500,
    // No events for bodies that do not exist: see `hasBody`.
    optimizeEmptyRequests: true,
  })

  const serve = servePipelinedInTurn((request, response) => {
    if (isClosing(request.socket)) return
    const error = findRequestError(request)
    // It is unclear where a request that is not HTTP ends. After a request with `Upgrade`, Node
    // drops what it has read.
    if (error === 'malformed_request' || request.headers.upgrade !== undefined)
      response.shouldKeepAlive = false
    if (error) answer(response, error)
    else handle(withOriginForm(request), response)
  })

  // Otherwise Node ends the connection at once, and a report would be stored without an answer.
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on('connection', (socket: Socket) => {
    socket.once('end', () => {
      const timers = [
        setTimeout(() => endAfterAnswer(socket), HALF_OPEN.started),
        setTimeout(() => socket.end(), HALF_OPEN.answered),
      ]
      socket.once('close', () => timers.forEach(clearTimeout))
    })
  })

  // Node's `close` closes only the connections that are idle at that moment.
  const close = server.close
  server.close = (callback) => {
    const sweep = setInterval(() => server.closeIdleConnections(), SWEEP)
    server.once('close', () => clearInterval(sweep))
    return close.call(server, callback)
  }

  const listener: RequestListener = (request, response) => {
    const { socket } = request
    if (socket.timeout !== timeouts.write) socket.setTimeout(timeouts.write)
    serve(request, response)
  }

  server.setTimeout(timeouts.write, (socket: Socket) => {
    const { write, idle, proxyIdle } = timeouts
    endStalled(socket, write, isProxy(socket.remoteAddress ?? '') ? proxyIdle : idle)
  })
  server.on('request', listener)
  // The code that reads a body sends "100 Continue", after all checks that need no body.
  server.on('checkContinue', listener)
  server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    // It may have `Upgrade` too.
    response.shouldKeepAlive = false
    answer(response, 'expectation_unknown')
  })
  return server
}

/**
 * Ends a connection on which nothing has moved for `socket.timeout` milliseconds, unless its client
 * waits for the server, for example for git, or the time between two requests is not over.
 *
 * | state   | the connection                             | what happens                     |
 * | ------- | ------------------------------------------ | -------------------------------- |
 * | unread  | has data that the client does not take     | reset: the kernel drops the data |
 * | working | waits for the answer to a request          | waits for `write` again          |
 * | idle    | has sent all answers                       | waits until `idle` is over       |
 * | over    | is ending, or has never received a request | closed                           |
 */
function endStalled(socket: Socket, write: number, idle: number): void {
  const state = stateOf(socket)
  if (state === 'unread') socket.resetAndDestroy()
  else if (state === 'working') socket.setTimeout(write)
  else if (state === 'idle' && socket.timeout === write && idle > write) socket.setTimeout(idle - write)
  else socket.destroy()
}

function stateOf(socket: Socket): 'unread' | 'working' | 'idle' | 'over' {
  const last = lastResponseOf(socket)
  if (socket.writableLength > 0) return socket.writableEnded ? 'over' : 'unread'
  if (last?.writableFinished === false) return 'working'
  return last && !socket.writableEnded ? 'idle' : 'over'
}

/** Connections whose error is known. Node reports it again for whatever else arrives. */
const rejected = new WeakSet<Socket>()

/**
 * Answers a request that the HTTP parser rejected, after all earlier requests of the connection.
 */
export function answerParserError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable || isClosing(socket)) {
    if (!isClosing(socket)) socket.destroy()
    return
  }
  const earlier = lastResponseOf(socket)
  if (earlier && !earlier.req.complete) {
    // The parser rejected the body of a request that has an answer already or gets its own.
    abortBody(earlier.req)
    if (earlier.writableFinished) lingeringClose(socket)
    // The status is already sent: only closing the connection can report the error.
    else if (earlier.headersSent) socket.destroy()
    return
  }
  const send = () => {
    if (isClosing(socket) || !socket.writable) return
    const code = parserErrorCode(error)
    const body = JSON.stringify({ error: defaultMessage(code) })
    socket.write(
      `HTTP/1.1 ${statusOf(code)} ${STATUS_CODES[statusOf(code)]}\r\n` +
        `Content-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` +
        `Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n${body}`,
    )
    lingeringClose(socket)
  }
  if (!earlier || earlier.writableFinished || earlier.destroyed) send()
  else if (!rejected.has(socket)) earlier.once('finish', send)
  rejected.add(socket)
}

function parserErrorCode(error: NodeJS.ErrnoException): ErrorCode {
  if (error.code === 'HPE_HEADER_OVERFLOW') return 'headers_too_large'
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'too_slow'
  return 'malformed_request'
}

/** Finds errors that Fastify's router does not reject. */
function findRequestError(request: IncomingMessage): ErrorCode | null {
  if (request.httpVersionMajor !== 1) return 'malformed_request'
  // RFC 9112, 6.1: others would have to be decoded.
  const coding = request.headers['transfer-encoding']
  if (coding !== undefined && (request.httpVersion === '1.0' || coding.toLowerCase() !== 'chunked'))
    return 'malformed_request'
  if (request.headers.host === undefined && request.httpVersion === '1.1') return 'host_missing'
  // RFC 9112, 3.2.
  if (headerValues(request.rawHeaders, 'host').length > 1) return 'malformed_request'
  // A request target has no fragment (RFC 9112, 3.2). Fastify's router takes "*" for "/".
  if (/^\*|[#\u0080-\uffff]/.test(request.url ?? '')) return 'malformed_url'
  return null
}

/** Replaces a target that is a whole URL by its path. Its host then counts (RFC 9112, 3.2.2). */
function withOriginForm(request: IncomingMessage): IncomingMessage {
  const { url = '' } = request
  const [origin, host] = /^https?:\/\/([^/?@]+)(?=[/?]|$)/i.exec(url) ?? []
  if (origin === undefined || host === undefined) return request
  const path = url.slice(origin.length)
  request.headers.host = host
  request.url = path.startsWith('/') ? path : `/${path}`
  return request
}

function answer(response: ServerResponse, code: ErrorCode): void {
  const body = JSON.stringify({ error: defaultMessage(code) })
  response.writeHead(statusOf(code), {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  })
  response.end(body)
}

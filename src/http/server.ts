import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { Socket } from 'node:net'
import { type ErrorCode, messageOf, statusOf } from '../errors.ts'
import { headerValues } from './header-values.ts'
import { Incoming } from './incoming.ts'
import { abortBody, isClosing, lingeringClose, responsesWithLingeringClose } from './lingering-close.ts'
import { lastResponseOf, servePipelinedInTurn } from './pipelining.ts'
import { endStalledWrites } from './write-timeout.ts'

/** Milliseconds until a client that does not get on is let go. */
export interface Timeouts {
  /** From the first byte of a request to the end of its headers. */
  headers: number
  /** From the end of the headers to the end of a body. */
  body: number
  /** Between two requests of a connection. */
  idle: number
  /** In which a client takes 30 KB of an answer that waits for it. */
  write: number
}

export const DEFAULT_TIMEOUTS: Timeouts = { headers: 10_000, body: 20_000, idle: 65_000, write: 30_000 }

/** How often connections that have become idle are closed while the server stops. Milliseconds. */
const SWEEP = 50
const MAX_HEADER_BYTES = 16 * 1024

/**
 * Node's HTTP server with every answer that Node would give by itself, or leave out, given as the contract says.
 *
 * @param handle answers all requests that are well formed
 */
export function createHttpServer(handle: RequestListener, timeouts: Timeouts): Server {
  const server = createServer({
    IncomingMessage: Incoming,
    ServerResponse: responsesWithLingeringClose(timeouts.body),
    maxHeaderSize: MAX_HEADER_BYTES,
    requireHostHeader: false,
    headersTimeout: timeouts.headers,
    // Bodies are timed by those who read them: a large push may take longer than any one limit for all.
    requestTimeout: 0,
    keepAliveTimeout: timeouts.idle,
    connectionsCheckingInterval: 500,
  })
  const listener = servePipelinedInTurn((request, response) => {
    if (isClosing(request.socket)) return
    const fault = findRequestError(request)
    if (fault) answer(response, fault)
    else handle(request, response)
  })
  // Closing closes the connections that are idle at that moment; the others are closed as they become so.
  const close = server.close
  server.close = (callback) => {
    const sweep = setInterval(() => server.closeIdleConnections(), SWEEP)
    server.once('close', () => clearInterval(sweep))
    return close.call(server, callback)
  }
  endStalledWrites(server, timeouts.write)
  server.on('request', listener)
  // Whoever reads the body sends "100 Continue", once it is known that the body is wanted.
  server.on('checkContinue', listener)
  server.on('checkExpectation', (_request: IncomingMessage, response: ServerResponse) => {
    answer(response, 'expectation_unknown')
  })
  return server
}

/** Answers what the HTTP parser refused. Earlier requests of the same connection get their answers first. */
export function answerParserError(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable || isClosing(socket)) {
    if (!isClosing(socket)) socket.destroy()
    return
  }
  const earlier = lastResponseOf(socket)
  if (earlier && !earlier.req.complete) {
    // What was refused is the body of a request that has an answer already or gets its own.
    abortBody(earlier.req)
    if (earlier.writableFinished) lingeringClose(socket)
    // An answer that has begun can say nothing more but by ending.
    else if (earlier.headersSent) socket.destroy()
    return
  }
  const send = () => {
    if (isClosing(socket) || !socket.writable) return
    const code = parserErrorCode(error)
    const body = JSON.stringify({ error: messageOf(code) })
    socket.write(
      `HTTP/1.1 ${statusOf(code)} ${code === 'headers_too_large' ? 'Request Header Fields Too Large' : 'Bad Request'}\r\n` +
        `Content-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` +
        `Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n${body}`,
    )
    lingeringClose(socket)
  }
  if (earlier && !earlier.writableFinished && !earlier.destroyed) earlier.once('finish', send)
  else send()
}

function parserErrorCode(error: NodeJS.ErrnoException): ErrorCode {
  if (error.code === 'HPE_HEADER_OVERFLOW') return 'headers_too_large'
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'too_slow'
  return 'malformed_request'
}

/** What Fastify's router would let pass. */
function findRequestError(request: IncomingMessage): ErrorCode | null {
  if (request.httpVersionMajor !== 1) return 'malformed_request'
  if (request.headers.host === undefined && request.httpVersion === '1.1') return 'host_missing'
  // RFC 9112, 3.2.
  if (headerValues(request.rawHeaders, 'host').length > 1) return 'malformed_request'
  if (/[\u0080-\uffff]/.test(request.url ?? '')) return 'malformed_url'
  return null
}

function answer(response: ServerResponse, code: ErrorCode): void {
  const body = JSON.stringify({ error: messageOf(code) })
  response.writeHead(statusOf(code), {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  })
  response.end(body)
}

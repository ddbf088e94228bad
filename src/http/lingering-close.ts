import {
  type IncomingMessage,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  ServerResponse,
} from 'node:http'
import type { Socket } from 'node:net'

/**
 * An unread body with a declared length of at most this many bytes is discarded, and the connection
 * stays open.
 */
const WORTH_READING = 64 * 1024
/**
 * How much of any other body is discarded before the connection is closed: bytes, and milliseconds.
 */
const DISCARD_BYTES = 16 * 1024 * 1024
const DISCARD_TIME = 2_000

const closing = new WeakSet<Socket>()
const aborted = new WeakSet<IncomingMessage>()

/**
 * Event of a request whose body will not be completed: its framing is wrong, or the client has
 * ended or is too slow.
 */
export const BODY_ABORTED = 'body aborted'

/** Marks a body as incomplete for good and emits `BODY_ABORTED`. */
export function abortBody(request: IncomingMessage): void {
  aborted.add(request)
  request.emit(BODY_ABORTED)
}

/** Returns whether the rest of the body will never arrive. */
export function isBodyAborted(request: IncomingMessage): boolean {
  return aborted.has(request)
}

/**
 * Returns whether the last answer of the connection has been sent. Data that still arrives is
 * discarded.
 */
export function isClosing(socket: Socket): boolean {
  return closing.has(socket)
}

/**
 * Returns a class of responses that a client receives even if it is still sending its body. Closing
 * a connection with unread bytes resets it, and the client may see the reset before the answer.
 *
 * @param timeout milliseconds that the rest of the body may take after the answer
 */
export function responsesWithLingeringClose(timeout: number): typeof ServerResponse {
  return class<Request extends IncomingMessage> extends ServerResponse<Request> {
    override writeHead(status: number, reason?: string, headers?: AnswerHeaders): this
    override writeHead(status: number, headers?: AnswerHeaders): this
    override writeHead(
      status: number,
      reasonOrHeaders?: string | AnswerHeaders,
      headers?: AnswerHeaders,
    ): this {
      if (hasBody(this.req) && !isRead(this.req)) answerBeforeBody(this.req, this, timeout)
      return typeof reasonOrHeaders === 'string'
        ? super.writeHead(status, reasonOrHeaders, headers)
        : super.writeHead(status, reasonOrHeaders ?? headers)
    }
  }
}

type AnswerHeaders = OutgoingHttpHeaders | OutgoingHttpHeader[]

/** Returns whether the request announces a body. */
export function hasBody({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
}

/** Returns whether all of the body has arrived and was read. */
function isRead({ complete, readableLength }: IncomingMessage): boolean {
  return complete && readableLength === 0
}

/**
 * Prepares an answer that is sent before the end of the request's body. Call it before the head is
 * written.
 */
function answerBeforeBody(request: IncomingMessage, response: ServerResponse, timeout: number): void {
  const { socket } = request
  const declared = Number(request.headers['content-length'] ?? Number.POSITIVE_INFINITY)
  if (isBodyAborted(request) || (!request.complete && declared > WORTH_READING))
    response.setHeader('connection', 'close')
  socket.destroySoon = () => lingeringClose(socket)
  response.once('finish', () => {
    // The handler may have stopped reading. Unread data would block the next request of the
    // connection.
    request.unpipe().resume()
    if (request.complete || isClosing(socket)) return
    // Node emits neither event if the connection is destroyed now.
    const timer = setTimeout(() => socket.destroy(), timeout).unref()
    for (const event of ['end', 'close']) request.once(event, () => clearTimeout(timer))
  })
}

/**
 * Ends the server's half of the connection, then discards what the client still sends, within
 * bounds, and closes.
 */
export function lingeringClose(socket: Socket): void {
  if (closing.has(socket)) return
  closing.add(socket)
  const limit = socket.bytesRead + DISCARD_BYTES
  const deadline = performance.now() + DISCARD_TIME
  const timer = setInterval(() => {
    if (socket.bytesRead > limit || performance.now() > deadline) socket.destroy()
  }, 20)
  socket.once('close', () => clearInterval(timer))
  socket.once('end', () => socket.destroy())
  // Node's parser would keep each request that it finds in what is discarded.
  socket.removeAllListeners('data').on('data', () => {})
  socket.end(() => {
    if (socket.readableEnded) socket.destroy()
  })
  socket.resume()
}

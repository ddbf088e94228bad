import {
  type IncomingMessage,
  type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
  ServerResponse,
} from 'node:http'
import type { Socket } from 'node:net'

/** An unread body declared as at most this many bytes is read and thrown away, and the connection stays open. */
const WORTH_READING = 64 * 1024
/** What is discarded of any other before the connection is closed: bytes, and milliseconds. */
const DISCARD_BYTES = 16 * 1024 * 1024
const DISCARD_TIME = 2_000

const closing = new WeakSet<Socket>()
const broken = new WeakSet<IncomingMessage>()

/** Event of a request whose body will not be waited for: its framing is wrong, its client has ended, or it is too slow. */
export const BODY_ABORTED = 'broken'

/** Tells whoever reads the body that the rest of it will never come. */
export function abortBody(request: IncomingMessage): void {
  broken.add(request)
  request.emit(BODY_ABORTED)
}

/** Whether the rest of the body will never come. */
export function isBodyAborted(request: IncomingMessage): boolean {
  return broken.has(request)
}

/** Whether the connection has had its last answer: what still arrives on it is thrown away. */
export function isClosing(socket: Socket): boolean {
  return closing.has(socket)
}

/**
 * Answers that let a client which is still sending see that its body is refused. Closing a connection on which bytes
 * lie unread resets it, and the reset overtakes the answer.
 *
 * @param patience milliseconds that the rest of the body may take after the answer
 */
export function responsesWithLingeringClose(patience: number): typeof ServerResponse {
  return class<Request extends IncomingMessage> extends ServerResponse<Request> {
    override writeHead(status: number, reason?: string, headers?: AnswerHeaders): this
    override writeHead(status: number, headers?: AnswerHeaders): this
    override writeHead(...head: unknown[]): this {
      // Whoever read all of the body has nothing to wait for.
      if (hasBody(this.req) && !this.req.readableEnded) answerBeforeBody(this.req, this, patience)
      return Reflect.apply(super.writeHead, this, head)
    }
  }
}

type AnswerHeaders = OutgoingHttpHeaders | OutgoingHttpHeader[]

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
}

/** To be called before the head of the answer is written. */
function answerBeforeBody(request: IncomingMessage, response: ServerResponse, patience: number): void {
  const { socket } = request
  const declared = Number(request.headers['content-length'] ?? Number.POSITIVE_INFINITY)
  if (isBodyAborted(request) || (!request.complete && declared > WORTH_READING))
    response.setHeader('connection', 'close')
  socket.destroySoon = () => lingeringClose(socket)
  response.once('finish', () => {
    // Whoever read the body may have stopped half-way, and what is left of it would block all that follows.
    request.unpipe().resume()
    if (request.complete || isClosing(socket)) return
    const timer = setTimeout(() => socket.destroy(), patience)
    for (const event of ['end', 'close']) request.once(event, () => clearTimeout(timer))
  })
}

/** Ends our half of the connection, then discards what the client still sends, within bounds, before closing. */
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
  socket.end(() => {
    if (socket.readableEnded) socket.destroy()
  })
  socket.resume()
}

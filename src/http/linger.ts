import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** An unread body declared as at most this many bytes is read and thrown away, and the connection stays open. */
const WORTH_READING = 64 * 1024
/** What is discarded of any other before the connection is closed: bytes, and milliseconds. */
const DISCARD_BYTES = 16 * 1024 * 1024
const DISCARD_TIME = 2_000

const closing = new WeakSet<Socket>()
const broken = new WeakSet<IncomingMessage>()

/** Event of a request whose body will not be waited for: its framing is wrong, its client has ended, or it is too slow. */
export const BROKEN = 'broken'

/** Tells whoever reads the body that the rest of it will never come. */
export function breakBody(request: IncomingMessage): void {
  broken.add(request)
  request.emit(BROKEN)
}

/** Whether the rest of the body will never come. */
export function isBroken(request: IncomingMessage): boolean {
  return broken.has(request)
}

/** Whether the connection has had its last answer: what still arrives on it is thrown away. */
export function isClosing(socket: Socket): boolean {
  return closing.has(socket)
}

/**
 * Lets a client that is still sending see the answer that refuses its body. Closing a connection on which bytes lie
 * unread resets it, and the reset overtakes the answer. To be called for every request that has a body.
 *
 * @param patience milliseconds that the rest of the body may take after the answer
 */
export function answerBeforeBody(request: IncomingMessage, response: ServerResponse, patience: number): void {
  const { socket } = request
  socket.destroySoon = () => closeGently(socket)
  response.once('finish', () => {
    // Whoever read the body may have stopped half-way, and what is left of it would block all that follows.
    request.unpipe().resume()
    if (request.complete || isClosing(socket)) return
    const timer = setTimeout(() => socket.destroy(), patience)
    for (const event of ['end', 'close']) request.once(event, () => clearTimeout(timer))
  })
  const writeHead = response.writeHead
  response.writeHead = (...args: unknown[]) => {
    const declared = Number(request.headers['content-length'] ?? Number.POSITIVE_INFINITY)
    if (isBroken(request) || (!request.complete && declared > WORTH_READING))
      response.setHeader('connection', 'close')
    return Reflect.apply(writeHead, response, args)
  }
}

/** Ends our half of the connection, then discards what the client still sends, within bounds, before closing. */
export function closeGently(socket: Socket): void {
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

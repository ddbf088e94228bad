import type { RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { isClosing, lingeringClose } from './lingering-close.ts'

/** Requests of one connection that may wait for an earlier answer. Each takes about 2 KB. */
export const MAX_WAITING = 128
/**
 * Connections that may have sent more at once. One read brings up to 3,600 requests, and Node keeps
 * what is not answered until the connection closes: 9 MB.
 */
export const MAX_OVERFULL = 8

/** The pipelined requests of one connection. */
interface Pipeline {
  /** Response to the latest request. */
  last: ServerResponse
  /** Number of requests that have not been started. */
  waiting: number
  /** Whether more arrived than may wait. Then the connection is closed after `last`. */
  isOverfull: boolean
  /** Whether the connection is ended after the answer to the request that was started. */
  isEnding: boolean
}

const pipelines = new WeakMap<Socket, Pipeline>()

/** Returns the response to the latest request of the connection. */
export function lastResponseOf(socket: Socket): ServerResponse | undefined {
  return pipelines.get(socket)?.last
}

/**
 * Returns whether the head of a request of the connection has arrived, and it has not been read to its
 * end or not been answered. Where its body is still discarded, the client may not have read the answer yet.
 */
export function isAtWork(socket: Socket): boolean {
  const last = lastResponseOf(socket)
  return isClosing(socket) || (last !== undefined && !(last.writableFinished && last.req.complete))
}

/**
 * Ends a connection after the answer to the request that was started. Those that wait are dropped:
 * their client knows that they have done nothing.
 */
export function endAfterAnswer(socket: Socket): void {
  const pipeline = pipelines.get(socket)
  if (pipeline === undefined || pipeline.last.writableFinished) socket.end()
  else if (pipeline.waiting === 0) pipeline.last.once('finish', () => socket.end())
  else pipeline.isEnding = true
}

/**
 * Returns a listener that starts a pipelined request after the answer to the one before it has been
 * sent: RFC 9112, 9.3.2 allows only safe methods to run side by side, and a client that reads
 * nothing has one answer in memory. Nothing more is read from a connection on which requests wait.
 * If there are too many in what was read, the excess is ignored: the last answer before it has
 * `Connection: close`, from which the client knows what to send again (RFC 9112, 9.6).
 */
export function servePipelinedInTurn(start: RequestListener): RequestListener {
  let overfull = 0

  function ignoreExcess(socket: Socket, pipeline: Pipeline): void {
    pipeline.isOverfull = true
    if (overfull === MAX_OVERFULL) {
      socket.destroy()
      return
    }
    overfull++
    socket.once('close', () => overfull--)
    pipeline.last.shouldKeepAlive = false
    // The excess is unread.
    socket.destroySoon = () => lingeringClose(socket)
  }

  return (request, response) => {
    const { socket } = request
    const pipeline = pipelines.get(socket)
    if (!socket.writable || pipeline?.isOverfull) return
    if (pipeline === undefined) {
      pipelines.set(socket, { last: response, waiting: 0, isOverfull: false, isEnding: false })
      start(request, response)
      return
    }
    if (pipeline.waiting === MAX_WAITING) {
      ignoreExcess(socket, pipeline)
      return
    }
    const earlier = pipeline.last
    pipeline.last = response
    if (earlier.writableFinished) {
      start(request, response)
      return
    }
    pipeline.waiting++
    // Node's parser resumes the connection at the end of each request.
    process.nextTick(() => {
      if (pipeline.waiting > 0) socket.pause()
    })
    earlier.once('finish', () => {
      pipeline.waiting--
      if (pipeline.waiting === 0 && !pipeline.isOverfull) socket.resume()
      if (pipeline.isEnding) socket.end()
      // The earlier answer may have closed the connection.
      else if (socket.writable) start(request, response)
    })
  }
}

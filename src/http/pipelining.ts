import type { RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Requests of one connection that may wait for an earlier answer. Each takes about 2 KB. */
export const MAX_WAITING = 128

/** The pipelined requests of one connection. */
interface Pipeline {
  /** Response to the latest request. */
  last: ServerResponse
  /** Number of requests that have not been started. */
  waiting: number
}

const pipelines = new WeakMap<Socket, Pipeline>()

/** Returns the response to the latest request of the connection. */
export function lastResponseOf(socket: Socket): ServerResponse | undefined {
  return pipelines.get(socket)?.last
}

/**
 * Returns a listener that starts a pipelined request after the answer to the one before it has been
 * sent: RFC 9112, 9.3.2 allows only safe methods to run side by side, and a client that reads
 * nothing has one answer in memory. Nothing more is read from a connection on which requests wait;
 * it is closed if there are too many in what was read.
 */
export function servePipelinedInTurn(start: RequestListener): RequestListener {
  return (request, response) => {
    const { socket } = request
    if (!socket.writable) return
    const pipeline = pipelines.get(socket)
    if (pipeline === undefined) {
      pipelines.set(socket, { last: response, waiting: 0 })
      start(request, response)
      return
    }
    const earlier = pipeline.last
    pipeline.last = response
    if (earlier.writableFinished) {
      start(request, response)
      return
    }
    pipeline.waiting++
    if (pipeline.waiting > MAX_WAITING) {
      socket.destroy()
      return
    }
    // Node's parser resumes the connection at the end of each request.
    process.nextTick(() => {
      if (pipeline.waiting > 0) socket.pause()
    })
    earlier.once('finish', () => {
      pipeline.waiting--
      if (pipeline.waiting === 0) socket.resume()
      // The earlier answer may have closed the connection.
      if (socket.writable) start(request, response)
    })
  }
}

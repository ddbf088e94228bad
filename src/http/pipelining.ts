import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Requests of all connections that may wait for an earlier answer. Each takes about 2 KB. */
const MAX_WAITING = 10_000
/** Requests of one connection that may always wait, even if the total is reached. */
const ALWAYS_WAITING = 32

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
 * Returns a listener that starts a pipelined request after the answer to the one before it has been sent. So a client that
 * sends many requests and reads nothing has one answer in memory, not one for each request, and Node reads no more than one
 * chunk of its requests. If too many requests wait all the same, a connection that adds one is closed.
 */
export function servePipelinedInTurn(start: RequestListener): RequestListener {
  let waiting = 0

  const stopWaiting = (pipeline: Pipeline, count: number) => {
    pipeline.waiting -= count
    waiting -= count
  }

  const open = (response: ServerResponse, socket: Socket) => {
    const pipeline = { last: response, waiting: 0 }
    pipelines.set(socket, pipeline)
    socket.once('close', () => stopWaiting(pipeline, pipeline.waiting))
  }

  const wait = (
    earlier: ServerResponse,
    request: IncomingMessage,
    response: ServerResponse,
    pipeline: Pipeline,
  ) => {
    const { socket } = request
    if (waiting >= MAX_WAITING && pipeline.waiting >= ALWAYS_WAITING) {
      socket.destroy()
      return
    }
    waiting++
    pipeline.waiting++
    // Node stops reading while more than this is waiting to be sent.
    const claim = socket.writableHighWaterMark + 1
    claimPending(response, claim)
    earlier.once('finish', () => {
      if (pipeline.waiting === 0) return
      stopWaiting(pipeline, 1)
      claimPending(response, -claim)
      // The earlier answer may have closed the connection.
      if (socket.writable) start(request, response)
    })
  }

  return (request, response) => {
    const { socket } = request
    if (!socket.writable) return
    const pipeline = pipelines.get(socket)
    const earlier = pipeline?.last
    if (pipeline) pipeline.last = response
    else open(response, socket)
    if (pipeline && earlier && !earlier.writableFinished) wait(earlier, request, response, pipeline)
    else start(request, response)
  }
}

/** Adds to the number of bytes that Node counts as waiting to be sent on a connection. */
function claimPending(response: ServerResponse, bytes: number): void {
  // Node has no public method for this.
  const accounted = response as ServerResponse & { _onPendingData(bytes: number): void }
  accounted._onPendingData(bytes)
}

import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** Requests of all connections that may wait for an earlier answer. Node needs some 2 KB for each. */
const MAX_WAITING = 10_000
/** Requests of one connection that may wait however many others do. */
const ALWAYS_WAITING = 32

/** What is pipelined on one connection. */
interface Pipeline {
  /** Of the request that came last. */
  last: ServerResponse
  /** Requests that have not been started. */
  waiting: number
}

const pipelines = new WeakMap<Socket, Pipeline>()

/** Returns the response to the request that came last on the connection. */
export function lastResponseOf(socket: Socket): ServerResponse | undefined {
  return pipelines.get(socket)?.last
}

/**
 * Returns a listener that starts a pipelined request when the one before it has been answered and its answer taken. A
 * client that sends many requests and reads nothing has one answer waiting, not as many as it asked for, and Node reads
 * no more than one chunk of its requests. Where too many wait all the same, a connection that adds one is closed.
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
    // Node reads no further while more than this waits to be sent.
    const claim = socket.writableHighWaterMark + 1
    claimPending(response, claim)
    earlier.once('finish', () => {
      if (pipeline.waiting === 0) return
      stopWaiting(pipeline, 1)
      claimPending(response, -claim)
      // The earlier answer may have been the last one.
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

/** Adds to what Node takes to be waiting to be sent on a connection. It has no public name for it. */
function claimPending(response: ServerResponse, bytes: number): void {
  const accounted = response as ServerResponse & { _onPendingData(bytes: number): void }
  accounted._onPendingData(bytes)
}

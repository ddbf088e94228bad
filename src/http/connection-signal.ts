import type { Socket } from 'node:net'
import { ServiceError } from '../errors.ts'
import { memoizeByObject } from '../util/memoize-by-object.ts'

/**
 * Returns a signal that aborts when the connection closes. All requests of a connection share it: an answer that waits
 * behind the answers to earlier, pipelined requests gets no `close` event of its own.
 */
export const connectionSignal = memoizeByObject((socket: Socket): AbortSignal => {
  const closed = new AbortController()
  const close = () => closed.abort(new ServiceError('malformed_request'))
  if (socket.destroyed) close()
  else socket.once('close', close)
  return closed.signal
})

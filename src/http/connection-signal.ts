import type { Socket } from 'node:net'
import { ServiceError } from '../errors.ts'
import { memoizeByObject } from '../util/memoize.ts'

/**
 * Returns a signal that aborts when the connection closes, or its client has ended its half, for
 * work that is wasted if the client has disconnected. All requests of a connection share it,
 * because Node emits no `close` on a response that waits behind those to earlier pipelined
 * requests.
 */
export const connectionSignal = memoizeByObject((socket: Socket): AbortSignal => {
  const closed = new AbortController()
  const close = () => closed.abort(new ServiceError('malformed_request'))
  if (socket.destroyed || socket.readableEnded) close()
  else socket.once('end', close).once('close', close)
  return closed.signal
})

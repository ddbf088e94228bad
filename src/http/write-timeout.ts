import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { sendQueues } from './send-queues.ts'

/** Bytes of a waiting answer that a client must receive in each timeout: 1 KB/s with the default of 30 s. */
const BYTES = 30 * 1024
/** The largest segment: a receiving system may report only in steps of this size that its program has read data. */
const STEP = 64 * 1024
/** Timeouts by which a client may be behind. At twice the lowest rate the first step is reported after 1.07 of them. */
const ALLOWED = 4 / 3
/** Number of sweeps in each timeout. */
const SWEEPS = 15

/** A connection on which bytes wait to be sent. */
interface Watched {
  /** Bytes that the client has received; undefined before the first count. */
  received: number | undefined
  /** Milliseconds by which the client is behind the minimum rate; negative if it is ahead. */
  behind: number
}

/**
 * Destroys connections whose clients do not receive their answers. Otherwise a client could hold memory, connections and
 * processes by not reading.
 *
 * ```
 *             bytes wait               falls too far behind
 *   unwatched ──────────▶ watched ────────────────────────────▶ destroyed
 *       ▲                    │
 *       └── nothing waits ◀──┘
 * ```
 *
 * A watched client falls behind as time passes and catches up with each byte it receives, at a rate of 30 KB for each
 * `timeout`. It can get ahead by one `STEP`. Time in which no bytes wait, because the answer is still being computed, does
 * not count.
 *
 * A client has received what its system has acknowledged. What the server's kernel accepts is no measure: it accepts up to
 * a few megabytes at once, and then nothing until a third of them is sent, which takes minutes with a slow client.
 *
 * @param timeout milliseconds
 */
export function endStalledWrites(server: Server, timeout: number): void {
  const sockets = new Set<Socket>()
  const watched = new WeakMap<Socket, Watched>()
  const allowed = timeout * ALLOWED
  const lead = timeout * (STEP / BYTES)
  const interval = timeout / SWEEPS
  let lastSweep = performance.now()
  let sweeping = false

  async function sweep(): Promise<void> {
    const now = performance.now()
    // If this process was suspended, clients could not receive anything meanwhile.
    const elapsed = Math.min(now - lastSweep, timeout)
    lastSweep = now
    const waiting: Waiting[] = []
    for (const socket of sockets) {
      const handle = socket.writableLength > 0 ? handleOf(socket) : null
      const client = watched.get(socket)
      if (handle === null) {
        if (client) watched.delete(socket)
      } else if (client === undefined) {
        watched.set(socket, { received: undefined, behind: 0 })
      } else {
        client.behind += elapsed
        const accepted = handle.bytesWritten - handle.writeQueueSize
        waiting.push({ socket, client, descriptor: handle.fd, accepted })
      }
    }
    if (waiting.length > 0) await resetStalled(waiting)
  }

  async function resetStalled(waiting: readonly Waiting[]): Promise<void> {
    const queues = await sendQueues(waiting.map(({ descriptor }) => descriptor))
    for (const { socket, client, descriptor, accepted } of waiting) {
      const received = accepted - (queues.get(descriptor) ?? 0)
      const before = client.received ?? received
      client.received = Math.max(received, before)
      client.behind = Math.max(-lead, client.behind - ((client.received - before) / BYTES) * timeout)
      if (client.behind > allowed) reset(socket)
    }
  }

  const timer = setInterval(() => {
    if (sweeping) return
    sweeping = true
    sweep().finally(() => {
      sweeping = false
    })
  }, interval).unref()
  server.on('close', () => clearInterval(timer))
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
}

/** A connection on which bytes have waited since the previous sweep. */
interface Waiting {
  socket: Socket
  client: Watched
  /** Its file descriptor; -1 on Windows, which has none. */
  descriptor: number
  /** Bytes that the server's kernel has accepted. */
  accepted: number
}

/** Resets the connection, so that the kernel drops the data that it still holds for the client. */
function reset(socket: Socket): void {
  // A connection that is already ending cannot be reset.
  if (socket.writableEnded) socket.destroy()
  else socket.resetAndDestroy()
}

/** Node's counters of a connection: all bytes written, and those that the kernel has not accepted yet. */
interface Handle {
  fd: number
  bytesWritten: number
  writeQueueSize: number
}

/** Returns null if the connection is closed. */
function handleOf(socket: Socket): Handle | null {
  // Node has no public name for these counters.
  return (socket as Socket & { _handle: Handle | null })._handle
}

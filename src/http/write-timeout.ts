import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { sendQueues } from './send-queues.ts'

/** What a client must take of a waiting answer in each time-out: 1 KB/s with the default of 30 s. */
const BYTES = 30 * 1024
/** A receiving system may tell only in steps of this size that its program has read something: the largest segment. */
const STEP = 64 * 1024
/** Time-outs by which a client may be behind. At twice the lowest rate the first step is reported after 1.07 of them. */
const ALLOWED = 4 / 3
/** Sweeps in each time-out. */
const SWEEPS = 15

/** A connection on which bytes wait to be sent. */
interface Watched {
  /** Bytes that the client has taken; undefined before they are counted. */
  taken: number | undefined
  /** Milliseconds by which the client is behind the lowest rate; negative: ahead of it. */
  behind: number
}

/**
 * Destroys connections whose clients do not take their answers, so that nobody holds memory, connections and processes by
 * not reading.
 *
 * ```
 *             bytes wait               falls too far behind
 *   unwatched ──────────▶ watched ────────────────────────────▶ destroyed
 *       ▲                    │
 *       └── nothing waits ◀──┘
 * ```
 *
 * A watched client falls behind by the time that passes, and catches up by what it takes, at 30 KB for each `timeout`. It
 * can get ahead by one `STEP`. Time in which nothing waits, since the answer is still being computed, never counts.
 *
 * A client has taken what its system has acknowledged. What our system accepts says too little: it takes up to some
 * megabytes at once, and then nothing until a third of it is gone, for minutes with a slow client.
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
    // Where this process stood still for long, clients had no chance to take anything.
    const elapsed = Math.min(now - lastSweep, timeout)
    lastSweep = now
    const slow = new Map<number, Slow>()
    for (const socket of sockets) {
      const handle = socket.writableLength > 0 ? handleOf(socket) : null
      const client = watched.get(socket)
      if (handle === null) {
        if (client) watched.delete(socket)
      } else if (client === undefined) {
        watched.set(socket, { taken: undefined, behind: 0 })
      } else {
        client.behind += elapsed
        slow.set(handle.fd, { socket, client, accepted: handle.bytesWritten - handle.writeQueueSize })
      }
    }
    if (slow.size > 0) await cutOffStalled(slow)
  }

  async function cutOffStalled(slow: ReadonlyMap<number, Slow>): Promise<void> {
    const queues = await sendQueues(slow.keys())
    for (const [descriptor, { socket, client, accepted }] of slow) {
      const taken = accepted - (queues.get(descriptor) ?? 0)
      const before = client.taken ?? taken
      client.taken = Math.max(taken, before)
      client.behind = Math.max(-lead, client.behind - ((client.taken - before) / BYTES) * timeout)
      if (client.behind > allowed) cutOff(socket)
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

/** What one sweep found of a connection on which bytes have waited since the last one. */
interface Slow {
  socket: Socket
  client: Watched
  /** Bytes that our system has accepted. */
  accepted: number
}

/** Resets the connection, so that the system too forgets at once what it holds for the client. */
function cutOff(socket: Socket): void {
  // One that is already ending cannot be reset.
  if (socket.writableEnded) socket.destroy()
  else socket.resetAndDestroy()
}

/** What Node knows of a connection: all bytes that were written, and those that the system has not taken yet. */
interface Handle {
  fd: number
  bytesWritten: number
  writeQueueSize: number
}

/** Node has no public name for these figures. null: the connection is closed. */
function handleOf(socket: Socket): Handle | null {
  return (socket as Socket & { _handle: Handle | null })._handle
}

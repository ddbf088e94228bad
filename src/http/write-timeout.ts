import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { sendQueues } from './send-queues.ts'

/** What a client must take of a waiting answer in each time-out: 1 KB/s with the default of 30 s. */
const BYTES = 30 * 1024
/** A receiving system may tell only in steps of this size that its program has read something: the largest segment. */
const STEP = 64 * 1024
/** Sweeps in each time-out. */
const SWEEPS = 6

/** A connection on which bytes wait to be sent. */
interface Watched {
  /** Bytes that the system has taken. */
  accepted: number
  /** Those of them that the client's system has taken; undefined until it is asked for. */
  acknowledged: number | undefined
  /** Milliseconds by which the client is behind the lowest rate. */
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
 * may fall behind by one `timeout` and by the time for one `STEP`. Time in which nothing waits, since the answer is still
 * being computed, never counts.
 *
 * What a client takes shows first in what our system accepts. Ours takes up to some megabytes at once, though, and then
 * nothing until a third of it is gone, for minutes with a slow client. So where nothing is accepted, the system is asked
 * how much of it the client's system has acknowledged.
 *
 * @param timeout milliseconds
 */
export function endStalledWrites(server: Server, timeout: number): void {
  const sockets = new Set<Socket>()
  const watched = new WeakMap<Socket, Watched>()
  const allowed = timeout * (1 + STEP / BYTES)
  const interval = timeout / SWEEPS
  let lastSweep = performance.now()
  let sweeping = false

  async function sweep(): Promise<void> {
    const now = performance.now()
    // Where this process stood still for long, clients had no chance to take anything.
    const elapsed = Math.min(now - lastSweep, timeout)
    lastSweep = now
    const stuck = new Map<number, Socket>()
    for (const socket of sockets) {
      const handle = socket.writableLength > 0 ? handleOf(socket) : null
      const known = watched.get(socket)
      if (handle === null) {
        if (known) watched.delete(socket)
        continue
      }
      const accepted = handle.bytesWritten - handle.writeQueueSize
      if (known === undefined) {
        watched.set(socket, { accepted, acknowledged: undefined, behind: 0 })
        continue
      }
      known.behind += elapsed
      if (accepted > known.accepted) {
        catchUp(known, accepted - known.accepted)
        known.accepted = accepted
        known.acknowledged = undefined
      } else {
        stuck.set(handle.fd, socket)
      }
    }
    if (stuck.size > 0) await judgeStuck(stuck)
  }

  async function judgeStuck(stuck: ReadonlyMap<number, Socket>): Promise<void> {
    const queues = await sendQueues(stuck.keys())
    for (const [descriptor, socket] of stuck) {
      const known = watched.get(socket)
      if (known === undefined) continue
      const acknowledged = known.accepted - (queues.get(descriptor) ?? 0)
      catchUp(known, Math.max(0, acknowledged - (known.acknowledged ?? acknowledged)))
      known.acknowledged = acknowledged
      if (known.behind > allowed) cutOff(socket)
    }
  }

  function catchUp(client: Watched, bytes: number): void {
    client.behind = Math.max(0, client.behind - (bytes / BYTES) * timeout)
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

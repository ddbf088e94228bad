import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

/**
 * Connections of clients that are slow on purpose, each from the next of some loopback addresses.
 */
export interface SlowClients {
  /** Of a server. */
  url: string
  addresses: readonly string[]
  connections: number
  /** Of each connection. */
  bytesPerSecond: number
}

/** What goes on until `stop` is called. */
export interface Ongoing {
  /** Number of connections that are still open. */
  open(): number
  /** Everything that was received, one text for each connection. */
  received(): string[]
  /** Reads what is left of the answers at once, to the end of the connections. */
  drain(): Promise<void>
  stop(): void
}

/** Milliseconds between two small reads or writes. */
const STEP = 250

/** Sends a whole request on each connection and reads the answers slowly. */
export function readSlowly(clients: SlowClients, request: string): Ongoing {
  const amount = Math.ceil((clients.bytesPerSecond * STEP) / 1000)
  return start(clients, amount, (socket) => {
    socket.write(request, 'latin1')
    return () => socket.resume()
  })
}

/** Sends the head of a request on each connection, then its body slowly, over and over. */
export function sendSlowly(clients: SlowClients, head: string, body: string): Ongoing {
  const amount = Math.ceil((clients.bytesPerSecond * STEP) / 1000)
  return start(clients, 64 * 1024, (socket) => {
    socket.write(head, 'latin1')
    let sent = 0
    return () => {
      socket.resume()
      for (let end = sent + amount; sent < end; ) {
        const part = body.slice(sent % body.length).slice(0, end - sent)
        socket.write(part, 'latin1')
        sent += part.length
      }
    }
  })
}

/**
 * Sends the beginning of a request on each connection and then `part` every 20 seconds. One that
 * ended, or is `seconds` old, is begun anew 5 seconds later.
 */
export function holdRequests(
  { url, addresses, connections }: Omit<SlowClients, 'bytesPerSecond'>,
  [head, part]: readonly [head: Buffer, part: Buffer],
  seconds: number,
): Pick<Ongoing, 'stop'> {
  const { hostname, port } = new URL(url)
  const stop = new AbortController()
  const hold = async (localAddress: string | undefined) => {
    while (!stop.signal.aborted) {
      const socket = connect({ host: hostname, port: Number(port), ...(localAddress && { localAddress }) })
      const end = () => socket.destroy()
      stop.signal.addEventListener('abort', end)
      socket
        .on('error', () => {})
        .once('data', end)
        .write(head)
      const parts = setInterval(() => socket.write(part), 20_000)
      const timer = setTimeout(end, seconds * 1_000)
      await new Promise((resolve) => socket.once('close', resolve))
      stop.signal.removeEventListener('abort', end)
      clearInterval(parts)
      clearTimeout(timer)
      if (!stop.signal.aborted) await new Promise((resolve) => setTimeout(resolve, 5_000).unref())
    }
  }
  for (let index = 0; index < connections; index++) void hold(addresses[index % addresses.length])
  return { stop: () => stop.abort() }
}

/** @param begin called for each connection; returns what it does in every step */
function start(
  { url, addresses, connections }: SlowClients,
  bytesAtOnce: number,
  begin: (socket: Socket) => () => void,
): Ongoing {
  const { hostname, port } = new URL(url)
  let draining = false
  const clients = Array.from({ length: connections }, (_, index) => {
    const client = { received: '' }
    const onread = {
      buffer: Buffer.alloc(bytesAtOnce),
      callback(length: number, bytes: Uint8Array) {
        client.received += Buffer.from(bytes.subarray(0, length)).toString('latin1')
        return draining
      },
    }
    const localAddress = addresses[index % addresses.length] ?? hostname
    const socket = connect({ host: hostname, port: Number(port), localAddress, onread })
    socket.on('error', () => {})
    return Object.assign(client, { socket, step: begin(socket) })
  })
  const timer = setInterval(() => {
    for (const { socket, step } of clients) if (socket.writable) step()
  }, STEP)
  return {
    async drain() {
      draining = true
      const closed = clients.map(({ socket }) => socket.closed || once(socket, 'close'))
      for (const { socket } of clients) socket.resume()
      await Promise.all(closed)
    },
    open: () => clients.filter(({ socket }) => !socket.destroyed).length,
    received: () => clients.map(({ received }) => received),
    stop() {
      clearInterval(timer)
      for (const { socket } of clients) socket.destroy()
    },
  }
}

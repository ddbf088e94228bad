import { Agent, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout } from 'node:timers/promises'

/**
 * Attacks a server, in a process of its own, so that the load does not disturb what is measured beside it:
 * `node attack.ts JSON`. Ends by itself.
 */
export type Attack = Hold | Loop

interface Common {
  url: string
  /** Loopback addresses that the connections come from, in turn. */
  addresses: string[]
  connections: number
  seconds: number
}

/** Connections that send requests whose answers they do not read. */
export interface Hold extends Common {
  kind: 'hold'
  /** Latin-1. */
  bytes: string
}

/** Connections that send one request after another. */
export interface Loop extends Common {
  kind: 'loop'
  method: string
  path: string
  headers: OutgoingHttpHeaders
  body: string
  /** Requests after which a connection moves on to the next address. */
  perAddress: number
}

/** Milliseconds after which a client whose request failed sends the next one. */
const PAUSE = 100

async function hold(attack: Hold, index: number, end: number): Promise<void> {
  const { hostname, port } = new URL(attack.url)
  const localAddress = attack.addresses[index % attack.addresses.length]
  const socket = connect({ host: hostname, port: Number(port), ...(localAddress && { localAddress }) })
  socket.on('error', () => {}).pause()
  socket.write(attack.bytes, 'latin1')
  await setTimeout(end - performance.now())
  socket.destroy()
}

async function loop(attack: Loop, index: number, end: number): Promise<void> {
  const { url, path, method, headers, body, addresses, perAddress, connections } = attack
  for (let turn = index; performance.now() < end; turn += connections) {
    const localAddress = addresses[turn % addresses.length]
    const agent = new Agent({ keepAlive: true, maxSockets: 1, ...(localAddress && { localAddress }) })
    for (let count = 0; count < perAddress && performance.now() < end; count++) {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const sent = request(url + path, { method, headers, agent }).on('error', reject)
      sent.on('response', (response: IncomingMessage) => {
        response.on('end', resolve).on('error', reject).resume()
      })
      sent.end(body)
      await promise.catch(() => setTimeout(PAUSE))
    }
    agent.destroy()
  }
}

if (import.meta.main) {
  const attack: Attack = JSON.parse(process.argv[2] ?? '')
  const end = performance.now() + attack.seconds * 1000
  const all = Array.from({ length: attack.connections }, (_, index) =>
    attack.kind === 'hold' ? hold(attack, index, end) : loop(attack, index, end),
  )
  await Promise.all(all)
}

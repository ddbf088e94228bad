import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { KeepAliveClient } from '../../helpers/keep-alive.ts'

/**
 * Attacks a server, in a process of its own, so that the load does not disturb what is measured
 * beside it.
 */
export type Attack = Hold | Loop

interface Common {
  url: string
  /** Loopback addresses that the connections come from, in turn. */
  addresses: string[]
  connections: number
  /** After which it ends, unless it is ended before. */
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
  /** Latin-1, sent in turn. */
  requests: readonly string[]
  /** Requests after which a connection moves on to the next address; none: it stays. */
  perAddress?: number
}

/** Milliseconds after which a client whose request failed sends the next one. */
const PAUSE = 100

/** Runs attacks while `work` goes on; then ends them. */
export async function during<T>(attacks: readonly Attack[], work: () => Promise<T>): Promise<T> {
  const children = attacks.map((attack) =>
    spawn(process.execPath, [import.meta.filename, JSON.stringify(attack)], {
      stdio: ['ignore', 'ignore', 'inherit'],
    }),
  )
  try {
    return await work()
  } finally {
    for (const child of children) {
      child.kill('SIGKILL')
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    }
  }
}

async function hold({ url, addresses, bytes }: Hold, index: number, end: number): Promise<void> {
  const { hostname, port } = new URL(url)
  const localAddress = addresses[index % addresses.length] ?? hostname
  const socket = connect({ host: hostname, port: Number(port), localAddress })
  socket.on('error', () => {}).pause()
  socket.write(bytes, 'latin1')
  await setTimeout(end - performance.now())
  socket.destroy()
}

async function loop(attack: Loop, index: number, end: number): Promise<void> {
  const { url, addresses, connections, perAddress = Number.POSITIVE_INFINITY } = attack
  const requests = attack.requests.map((bytes) => Buffer.from(bytes, 'latin1'))
  for (let turn = index; performance.now() < end; turn += connections) {
    try {
      const client = await KeepAliveClient.open(url, addresses[turn % addresses.length])
      for (let count = 0; count < perAddress && performance.now() < end; count++)
        await client.send(requests[(index + count) % requests.length] ?? Buffer.alloc(0))
      client.close()
    } catch {
      await setTimeout(PAUSE)
    }
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

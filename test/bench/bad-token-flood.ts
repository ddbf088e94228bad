import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { createToken } from '../../src/auth/token.ts'

/** Bad tokens from one address, in an open loop: an answer that is late does not hold back the next request. */
interface Storm {
  url: string
  path: string
  /** Requests a second. */
  rate: number
}

/** Of this machine, but not the address that all others use. autocannon and wrk cannot choose theirs. */
const FROM = '127.0.0.2'
const CONNECTIONS = 64
/** Milliseconds between two looks at how many requests are due. */
const TURN = 5
/** Milliseconds for the answers that are still to come when no more is sent. */
const PATIENCE = 5_000
/** Part of what was asked for that must come about. */
const LEAST = 0.9

/**
 * Begins to send, from a process of its own.
 *
 * @returns what ends it, and says so when less than nine tenths of what was asked for came about, or when an answer was
 *   neither 401 nor 429
 */
export async function startTokenFlood(storm: Storm): Promise<() => Promise<string | undefined>> {
  const child = spawn(process.execPath, [import.meta.filename, JSON.stringify(storm)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  await once(child.stdout, 'readable')
  const output = text(child.stdout)
  return async () => {
    child.stdin.end()
    const { seconds, statuses }: { seconds: number; statuses: Record<string, number> } = JSON.parse(
      await output,
    )
    const { 401: failed = 0, 429: blocked = 0, ...others } = statuses
    const enough = failed + blocked >= LEAST * storm.rate * seconds && Object.keys(others).length === 0
    return enough
      ? undefined
      : `the storm of ${seconds.toFixed(1)} s was answered ${JSON.stringify(statuses)}`
  }
}

async function main(): Promise<void> {
  const { url, path, rate }: Storm = JSON.parse(process.argv[2] ?? '')
  const { hostname, port, host } = new URL(url)
  const statuses: Record<string, number> = {}
  let [sent, answered] = [0, 0]
  const open = (): Socket =>
    connect({ host: hostname, port: Number(port), localAddress: FROM })
      .setNoDelay()
      .setEncoding('latin1')
      .on('data', (chunk) => {
        for (const [, status = ''] of String(chunk).matchAll(/HTTP\/1\.1 (\d{3})/g)) {
          statuses[status] = (statuses[status] ?? 0) + 1
          answered++
        }
      })
  const sockets = Array.from({ length: CONNECTIONS }, open)
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  // What is waited for at the other end: JSON may begin with white space.
  process.stdout.write('\n')
  const start = performance.now()
  const timer = setInterval(() => {
    for (const due = ((performance.now() - start) / 1000) * rate; sent < due; sent++)
      sockets[sent % CONNECTIONS]?.write(
        `GET ${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${createToken()}\r\n\r\n`,
      )
  }, TURN)

  await text(process.stdin)
  clearInterval(timer)
  const seconds = (performance.now() - start) / 1000
  for (let waited = 0; answered < sent && waited < PATIENCE; waited += TURN) await setTimeout(TURN)
  for (const socket of sockets) socket.destroy()
  process.stdout.write(JSON.stringify({ seconds, statuses }))
}

if (import.meta.main) await main()

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { createToken } from '../../src/auth/token.ts'

/**
 * Requests with bad tokens from one address, in an open loop: a late answer does not delay the next
 * request.
 */
interface Flood {
  url: string
  path: string
  /** Requests per second. */
  rate: number
}

/** A loopback address other than that of the regular load. autocannon and wrk cannot set theirs. */
const FROM = '127.0.0.2'
const CONNECTIONS = 64
/** Milliseconds between two batches of due requests. */
const INTERVAL = 5
/** Milliseconds to wait for outstanding answers at the end. */
const TIMEOUT = 5_000
/** Fraction of the rate that must be reached. */
const MIN_RATE = 0.9

/**
 * Starts the flood in its own process.
 *
 * @returns a function that stops it and returns an error message if less than nine tenths of the
 * rate was reached or an
 *   answer was neither 401 nor 429
 */
export async function startTokenFlood(flood: Flood): Promise<() => Promise<string | undefined>> {
  const child = spawn(process.execPath, [import.meta.filename, JSON.stringify(flood)], {
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
    const enough = failed + blocked >= MIN_RATE * flood.rate * seconds && Object.keys(others).length === 0
    return enough
      ? undefined
      : `unexpected answers to the bad-token flood of ${seconds.toFixed(1)} s: ${JSON.stringify(statuses)}`
  }
}

async function main(): Promise<void> {
  const { url, path, rate }: Flood = JSON.parse(process.argv[2] ?? '')
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
  // Tells the parent that the connections are open. JSON may begin with white space.
  process.stdout.write('\n')
  const start = performance.now()
  const timer = setInterval(() => {
    for (const due = ((performance.now() - start) / 1000) * rate; sent < due; sent++)
      sockets[sent % CONNECTIONS]?.write(
        `GET ${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${createToken()}\r\n\r\n`,
      )
  }, INTERVAL)

  await text(process.stdin)
  clearInterval(timer)
  const seconds = (performance.now() - start) / 1000
  for (let waited = 0; answered < sent && waited < TIMEOUT; waited += INTERVAL) await setTimeout(INTERVAL)
  for (const socket of sockets) socket.destroy()
  process.stdout.write(JSON.stringify({ seconds, statuses }))
}

if (import.meta.main) await main()

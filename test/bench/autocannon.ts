import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import autocannon, { type Client } from 'autocannon'
import { type Load, type Measured, UNIQUE } from './load.ts'

/** Runs autocannon in a child process, whose program is this module. */
export async function runAutocannon(load: Load): Promise<Measured> {
  const child = spawn(process.execPath, [import.meta.filename], { stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.end(JSON.stringify(load))
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
  if (code !== 0) throw new Error(`autocannon exited with code ${code}`)
  return JSON.parse(output)
}

async function main(): Promise<void> {
  const { url, connections, seconds, requests }: Load = JSON.parse(await text(process.stdin))
  // autocannon prepares all requests for each connection, which takes seconds: give each connection
  // a share.
  let opened = 0
  const setupClient = (client: Client) => {
    const turn = opened++ % requests.length
    client.setRequests(requests.filter((_, index) => index % connections === turn % connections))
  }
  // autocannon replaces the same placeholder, which makes it build every request again.
  const idReplacement = requests.some(({ body }) => body?.includes(UNIQUE))
  const options = { url, connections, duration: seconds, setupClient, idReplacement }
  const { duration, latency, errors, timeouts, statusCodeStats = {}, ...result } = await autocannon(options)
  const measured: Measured = {
    rate: result.requests.total / duration,
    p50: latency.p50,
    p99: latency.p99,
    statuses: Object.fromEntries(
      Object.entries(statusCodeStats).map(([status, { count }]) => [status, Number(count)]),
    ),
    errors: errors + timeouts,
  }
  process.stdout.write(JSON.stringify(measured))
}

if (import.meta.main) await main()

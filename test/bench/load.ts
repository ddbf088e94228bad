import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import autocannon, { type Request } from 'autocannon'

/** What one process of load does. It is handed over as JSON. */
export interface Load {
  url: string
  connections: number
  /** Seconds. */
  duration: number
  /** Requests in turn; each connection begins at another one. */
  requests: Request[]
  /** Requests a second over all connections; without it as many as are answered. */
  rate?: number
}

/** What came of it. */
export interface Measured {
  /** Answers a second. */
  rate: number
  /** Milliseconds. */
  p50: number
  p99: number
  /** Answers by status. */
  statuses: Record<string, number>
  errors: number
}

/** Puts load on a server from a process of its own. */
export async function putLoad(load: Load): Promise<Measured> {
  const child = spawn(process.execPath, [import.meta.filename, '--child'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  child.stdin.end(JSON.stringify(load))
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
  if (code !== 0) throw new Error(`the load ended with ${code}`)
  return JSON.parse(output)
}

async function run(): Promise<void> {
  const load: Load = JSON.parse(await text(process.stdin))
  const result = await autocannon({
    url: load.url,
    connections: load.connections,
    duration: load.duration,
    ...(load.rate && { overallRate: load.rate }),
    requests: load.requests,
  })
  const measured: Measured = {
    rate: result.requests.total / result.duration,
    p50: result.latency.p50,
    p99: result.latency.p99,
    statuses: Object.fromEntries(
      Object.entries(result.statusCodeStats ?? {}).map(([status, { count }]) => [status, Number(count)]),
    ),
    errors: result.errors + result.timeouts,
  }
  process.stdout.write(JSON.stringify(measured))
}

if (parseArgs({ options: { child: { type: 'boolean' } }, strict: false }).values.child) await run()

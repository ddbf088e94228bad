import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Load, type LoadRequest, type Measured, UNIQUE } from './load.ts'

const run = promisify(execFile)
/** Bytes that replace `UNIQUE`: 6 of the run, 8 of the request. */
const UNIQUE_BYTES = 14

/** Runs wrk with one thread and a script that sends the requests and counts the answers. */
export async function runWrk(load: Load): Promise<Measured> {
  const folder = mkdtempSync(join(tmpdir(), 'wrk-'))
  try {
    const script = join(folder, 'load.lua')
    writeFileSync(script, scriptOf(load))
    const { url, connections, seconds } = load
    const sizes = ['--threads', '1', '--connections', `${connections}`, '--duration', `${seconds}s`]
    const { stderr } = await run('wrk', [...sizes, '--script', script, url])
    const { answers, duration, p50, p99, statuses, errors } = JSON.parse(stderr)
    return { rate: answers / (duration / 1e6), p50: p50 / 1000, p99: p99 / 1000, statuses, errors }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function scriptOf({ url, requests }: Load): string {
  const { host } = new URL(url)
  return `
    local requests = { ${requests.map((request) => luaOf(request, host)).join(',\n')} }
    local run, turn, made, sender = "${randomBytes(3).toString('hex')}", 0, 0, nil
    statuses = {}
    function setup(thread) sender = thread end
    function request()
      turn = turn % #requests + 1
      local request = requests[turn]
      if type(request) == "string" then return request end
      made = made + 1
      return request[1] .. run .. string.format("%08d", made) .. request[2]
    end
    function response(status) statuses[status] = (statuses[status] or 0) + 1 end
    function done(summary, latency)
      local counts = {}
      for status, count in pairs(sender:get("statuses")) do
        counts[#counts + 1] = string.format('"%d":%d', status, count)
      end
      local errors = summary.errors
      io.stderr:write(string.format('{"answers":%d,"duration":%d,"p50":%d,"p99":%d,"errors":%d,"statuses":{%s}}',
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
        errors.connect + errors.read + errors.write + errors.timeout, table.concat(counts, ",")))
    end`
}

/**
 * Returns a request as a Lua string, or as a table of the parts before and after the unique value.
 */
function luaOf({ method, path, headers, body = '' }: LoadRequest, host: string): string {
  const unique = body.includes(UNIQUE)
  const length = Buffer.byteLength(body) + (unique ? UNIQUE_BYTES - UNIQUE.length : 0)
  const lines = Object.entries({ host, ...headers, ...(body && { 'content-length': `${length}` }) })
  const head = [`${method} ${path} HTTP/1.1`, ...lines.map(([name, value]) => `${name}: ${value}`)]
  // For printable ASCII and line ends, the escapes of JSON are valid in Lua.
  const parts = `${head.join('\r\n')}\r\n\r\n${body}`.split(UNIQUE).map((part) => JSON.stringify(part))
  return unique ? `{ ${parts.join(', ')} }` : parts.join('')
}

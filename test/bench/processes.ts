import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'

/** A server as a process of its own. */
export interface ServerProcess {
  url: string
  /** Processor time used so far, in microseconds, by all of its threads. */
  cpu(): number
  /** Bytes of memory that it has in use now (resident set). */
  memory(): number
  stop(): Promise<void>
}

/** Linux counts processor time in hundredths of a second, and memory in pages. */
const TICK = 10_000
const PAGE = 4096

/** @param args of node; the process prints `Listening on URL` */
export async function startProcess(args: string[], env: NodeJS.ProcessEnv = {}): Promise<ServerProcess> {
  const child = spawn(process.execPath, args, {
    cwd: resolve(import.meta.dirname, '../..'),
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  for await (const line of createInterface(child.stdout)) {
    const [, url] = /^Listening on (\S+)$/.exec(line) ?? []
    if (!url) continue
    child.stdout.resume()
    return {
      url,
      cpu() {
        // Behind the name in brackets, which may hold anything: user and system time are the 12th and 13th field.
        const [, rest = ''] = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(/\) (?!.*\) )/)
        const fields = rest.split(' ')
        return (Number(fields[11]) + Number(fields[12])) * TICK
      },
      memory() {
        const [, resident] = readFileSync(`/proc/${child.pid}/statm`, 'utf8').split(' ')
        return Number(resident) * PAGE
      },
      async stop() {
        child.kill()
        if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
      },
    }
  }
  throw new Error(`${args.join(' ')} did not start`)
}

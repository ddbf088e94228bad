import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'

/** A server in its own process. */
export interface ServerProcess {
  url: string
  /** Returns the processor time of all threads so far, in microseconds. */
  cpu(): number
  /** Returns the resident set size in bytes. */
  memory(): number
  stop(): Promise<void>
}

const root = resolve(import.meta.dirname, '../..')
/** /proc counts processor time in hundredths of a second, and memory in pages. */
const TICK = 10_000
const PAGE = 4096

/**
 * Starts a server that prints `Listening on URL`.
 *
 * @param args of node
 * @param folder of a copy of this project, whose node runs the server
 */
export async function startProcess(
  args: string[],
  env: NodeJS.ProcessEnv = {},
  folder = root,
): Promise<ServerProcess> {
  const child = spawn(join(folder, 'node_modules/.bin/node'), args, {
    cwd: folder,
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
        // User and system time are the 12th and 13th field after the name in brackets, which may
        // contain anything.
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
  throw new Error(`${args.join(' ')} exited before it listened`)
}

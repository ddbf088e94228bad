import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { execute } from '../helpers/databases.ts'

/** A server in its own process. */
export interface ServerProcess {
  url: string
  /** Returns the processor time of all threads so far, in microseconds. */
  cpu(): number
  /** The same of its children that have ended, and of theirs. */
  childrenCpu(): number
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
      cpu: () => cpuOf(child.pid).own,
      childrenCpu: () => cpuOf(child.pid).children,
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

/**
 * Returns the processor time of a process so far, and that of its children that have ended, in
 * microseconds.
 */
export function cpuOf(pid: number | undefined): { own: number; children: number } {
  // User and system time are the 12th and 13th field after the name in brackets, which may contain
  // anything; those of children follow.
  const [, rest = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(/\) (?!.*\) )/)
  const [user = 0, system = 0, childrenUser = 0, childrenSystem = 0] = rest
    .split(' ')
    .slice(11, 15)
    .map(Number)
  return { own: (user + system) * TICK, children: (childrenUser + childrenSystem) * TICK }
}

/**
 * Returns a function that returns the processor time of all processes of a PostgreSQL server so far,
 * in microseconds.
 */
export async function databaseClock(url: string): Promise<() => number> {
  const [row] = await execute(url, `select split_part(pg_read_file('postmaster.pid'), chr(10), 1) as pid`)
  const postmaster = Number(row?.pid)
  return () => {
    const running = readFileSync(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8').trim().split(' ')
    const { own, children } = cpuOf(postmaster)
    return running.reduce((sum, pid) => sum + cpuOf(Number(pid)).own, own + children)
  }
}

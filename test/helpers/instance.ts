import { type ChildProcess, spawn } from 'node:child_process'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import type { StoreOptions } from '../../src/store/store.ts'
import { callerOf, type TestServer } from './server.ts'

/** A server in a process of its own. */
export interface Instance extends Pick<TestServer, 'call' | 'report' | 'read'> {
  url: string
  child: ChildProcess
  /** The lines that it has logged so far. */
  log: string[]
}

/**
 * Starts a process that serves the database, on a free port; it is killed when the test ends.
 *
 * @param nodeOptions of its Node.js. It gets none from tap, which would handle its signals
 */
export async function startInstance(
  t: Pick<Test, 'teardown'>,
  { dataDir, databaseUrl }: StoreOptions,
  environment: Record<string, string> = {},
  nodeOptions: readonly string[] = [],
): Promise<Instance> {
  const server = resolve(import.meta.dirname, '../../src/server.ts')
  const child = spawn('env', ['-u', 'NODE_OPTIONS', process.execPath, ...nodeOptions, server], {
    env: {
      PATH: process.env.PATH,
      DATA_DIR: dataDir,
      ...(databaseUrl && { DATABASE_URL: databaseUrl }),
      PORT: '0',
      LOG_LEVEL: 'silent',
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const log: string[] = []
  const url = await new Promise<string>((resolve, reject) => {
    child.on('exit', (code) => reject(new Error(`the server ended with ${code}`)))
    createInterface(child.stdout).on('line', (line) => {
      const [, address] = /^Listening on (http:\S+)$/.exec(line) ?? []
      if (address) resolve(address)
      else log.push(line)
    })
  })
  return { url, child, log, ...callerOf(url) }
}

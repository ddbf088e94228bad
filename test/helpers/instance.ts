import { type ChildProcess, spawn } from 'node:child_process'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import type { StoreOptions } from '../../src/store/store.ts'
import { minimalEnvironment } from './process.ts'
import { callerOf, type TestServer } from './server.ts'

/** A server in its own process. */
export interface Instance extends Pick<TestServer, 'call' | 'report' | 'read'> {
  url: string
  child: ChildProcess
  /** The lines logged so far. */
  log: string[]
}

/**
 * Starts a process that serves the database on a free port. The teardown kills it.
 *
 * @param nodeOptions arguments of node.
 */
export async function startInstance(
  t: Pick<Test, 'teardown'>,
  { dataDir, databaseUrl }: StoreOptions,
  environment: Record<string, string> = {},
  nodeOptions: readonly string[] = [],
): Promise<Instance> {
  const server = resolve(import.meta.dirname, '../../src/server.ts')
  const child = spawn(process.execPath, [...nodeOptions, server], {
    env: {
      ...minimalEnvironment(),
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

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import type { Test } from 'tap'
import type { StoreOptions } from '../../src/store/store.ts'

const main = resolve(import.meta.dirname, '../../src/server.ts')

/** The server as a process of its own on a free port; it is stopped when the test ends. */
export async function startServerProcess(
  t: Test,
  { dataDir, databaseUrl }: StoreOptions,
  environment: Record<string, string> = {},
): Promise<{ url: string; log: string[] }> {
  const own = { HOST: '127.0.0.1', PORT: '0', DATA_DIR: dataDir, DATABASE_URL: databaseUrl ?? '' }
  const server = spawn(process.execPath, [main], {
    env: { PATH: process.env.PATH, ...own, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const stopped = once(server, 'exit')
  t.teardown(async () => {
    server.kill('SIGTERM')
    await stopped
  })
  const log: string[] = []
  const { promise, resolve: listening, reject } = Promise.withResolvers<string>()
  createInterface(server.stdout)
    .on('line', (line) => {
      const [, url] = /^Listening on (\S+)$/.exec(line) ?? []
      if (url) listening(url)
      else log.push(line)
    })
    .on('close', () => reject(new Error('the server did not start')))
  return { url: await promise, log }
}

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'

const main = resolve(import.meta.dirname, '../../src/server.ts')

/** Starts the server as a child process on a free port. */
export async function startServer(dataDir: string) {
  const server = spawn(process.execPath, [main], {
    env: {
      ...process.env,
      HOST: '127.0.0.1',
      PORT: '0',
      DATA_DIR: dataDir,
      DATABASE_URL: '',
      LOG_LEVEL: 'warn',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const stopped = once(server, 'exit')
  for await (const line of createInterface(server.stdout)) {
    const [, url] = /^Listening on (\S+)$/.exec(line) ?? []
    if (!url) continue
    server.stdout.resume()
    return {
      url,
      /** Ctrl-C reaches the server too, which then ends by itself. */
      stopped,
      async stop(): Promise<void> {
        if (server.exitCode === null) server.kill('SIGTERM')
        await stopped
      },
    }
  }
  throw new Error('the server did not start')
}

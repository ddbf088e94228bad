import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import type { Setup } from './prepare.ts'

const main = resolve(import.meta.dirname, '../typescript/src/cli/main.ts')

/** Starts a worker that runs `ci.sh` of each pushed commit, prints what it does, and links each status to its log. */
export async function startWorker(url: string, { folder, token }: Setup) {
  const logs = await serveLogs(join(folder, 'logs'))
  const options = [
    ...['--repo', 'demo/rocket', '--context', 'ci', '--every', '1s'],
    ...['--folder', join(folder, 'work'), '--logs', join(folder, 'logs'), '--log-url', `${logs.url}/{log}`],
  ]
  const worker = spawn(process.execPath, [main, 'work', ...options, '--', './ci.sh'], {
    env: { ...process.env, COMMIT_STATUS_URL: url, COMMIT_STATUS_TOKEN: token },
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const stopped = once(worker, 'exit')
  return {
    async stop(): Promise<void> {
      if (worker.exitCode === null) worker.kill('SIGTERM')
      await stopped
      logs.close()
    },
  }
}

/** Serves the logs of a folder on a free port, as the web server of a CI machine does. */
async function serveLogs(folder: string) {
  const server = createServer(({ url = '/' }, response) => {
    // A parsed path has no `..`, and no log needs an escape in its name.
    const pathname = URL.parse(url, 'http://localhost')?.pathname ?? '/'
    response.setHeader('Content-Type', 'text/plain; charset=utf-8')
    createReadStream(join(folder, pathname))
      .on('error', () => response.writeHead(404).end('There is no such log.\n'))
      .pipe(response)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

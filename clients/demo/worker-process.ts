import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import type { Setup } from './prepare.ts'

const main = resolve(import.meta.dirname, '../typescript/src/cli/main.ts')

/** Starts a worker that runs `ci.sh` of each pushed commit, and prints what it does. */
export function startWorker(url: string, { folder, token }: Setup) {
  const options = [
    '--repo',
    'demo/rocket',
    '--context',
    'ci',
    '--every',
    '1s',
    '--folder',
    join(folder, 'work'),
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
    },
  }
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { openStore, type Store } from '../../src/store/store.ts'
import { minimalEnvironment } from '../helpers/process.ts'

const program = resolve(import.meta.dirname, '../../src/server.ts')

/** A server in its own process, on a database that the run can administer. */
export interface OwnServer {
  url: string
  store: Store
  /** Stops the process and removes its files. */
  stop(): Promise<void>
}

export interface OwnServerOptions {
  /** Failed authentications before an address is blocked. */
  failureLimit: number
  /** Arguments of node before the program. */
  nodeOptions?: readonly string[]
  environment?: Readonly<Record<string, string>>
}

/** Starts a server. @throws Error with the output of the process if it exits before it listens */
export async function startOwnServer(options: OwnServerOptions): Promise<OwnServer> {
  const dataDir = await mkdtemp(join(tmpdir(), 'contract-'))
  const child = spawn(process.execPath, [...(options.nodeOptions ?? []), program], {
    env: {
      ...minimalEnvironment(),
      DATA_DIR: dataDir,
      PORT: '0',
      LOG_LEVEL: 'silent',
      AUTH_FAILURE_LIMIT: String(options.failureLimit),
      ...options.environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const url = await listening(child)
  const store = await openStore({ dataDir })
  return {
    url,
    store,
    async stop() {
      await store.close()
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGTERM')
        await once(child, 'exit')
      }
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

function listening(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = ''
    const read = (text: string) => {
      output += text
      const url = /^Listening on (http:\S+)$/m.exec(output)?.[1]
      if (url) resolve(url)
    }
    child.stdout?.setEncoding('utf8').on('data', read)
    child.stderr?.setEncoding('utf8').on('data', read)
    child.on('exit', (code) =>
      reject(new Error(`the server exited with code ${code}: ${output.slice(-2000)}`)),
    )
  })
}

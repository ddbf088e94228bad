import { existsSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Test } from 'tap'
import { temporaryFolder } from '../../../../test/helpers/databases.ts'
import { gitWith } from '../../../../test/helpers/git.ts'
import { minimalEnvironment } from '../../../../test/helpers/process.ts'
import type { TestServer } from '../../../../test/helpers/server.ts'
import { work } from '../../src/cli/work/work.ts'
import {
  type CommandLineOptions,
  commandLine,
  type Running,
  type RunningProcess,
  startHere,
} from './command-line.ts'
import { type FailingProxy, startFailingProxy } from './failing-proxy.ts'
import { quickTimes } from './quick-worker.ts'

/** A repository of a server, in which commits wait, and workers for it. */
export interface WorkPlace {
  server: TestServer
  /** OWNER/NAME */
  name: string
  /** Folder of the repository on the server. */
  path: string
  token: string
  /** What is between the workers and the server. */
  proxy: FailingProxy
  /** Commits `ci.sh` and other files on a branch, and returns the commit. */
  push(branch: string, script: string, options?: PushOptions): string
  /** The folder of the workers. */
  folder: string
  /** Starts a worker of the repository whose command is `sh ci.sh`, for the context `ci`, in this process. */
  work(args?: readonly string[], options?: WorkOptions): Running
  /** Starts one in a process of its own, for what ends or stops it. */
  workAlone(args?: readonly string[], options?: WorkOptions & CommandLineOptions): RunningProcess
  /** Returns `state: description` of a check; undefined if it was not reported. */
  result(sha: string): Promise<string | undefined>
  /** Waits until a check is not pending, and returns `state: description`. */
  settled(sha: string): Promise<string>
  /** Asks for another run. */
  request(sha: string): Promise<unknown>
  /** Names of the jobs that are in the folder. */
  jobs(): string[]
}

interface PushOptions {
  files?: Record<string, { mode?: string; text: string }>
  /** Seconds since the epoch. */
  at?: number
}

interface WorkOptions {
  env?: Record<string, string>
  /** By default `sh ci.sh`. */
  command?: readonly string[]
  folder?: string
}

/** The program with short times. */
export const quickWorker = [process.execPath, resolve(import.meta.dirname, 'quick-worker.ts')]

/** Opens another repository of a server with a proxy and a folder of its own; it ends with the test. */
export async function openWorkPlace(t: Test, server: TestServer, name: string): Promise<WorkPlace> {
  const [owner = ''] = name.split('/')
  const { path } = await server.createRepository(name, { commits: 0 })
  const token = await server.createToken(owner)
  const proxy = await startFailingProxy(t, server.url)
  const folder = join(temporaryFolder(t), 'work')
  let pushes = 0

  const argumentsOf = (
    args: readonly string[],
    { command = ['sh', 'ci.sh'], folder: own = folder }: WorkOptions,
  ) => [
    ...['--repo', name, '--context', 'ci', '--every', '0.3s', '--folder', own, ...args],
    ...['--', ...command],
  ]
  const environment = { COMMIT_STATUS_URL: proxy.url, COMMIT_STATUS_TOKEN: token }

  async function result(sha: string): Promise<string | undefined> {
    const { json } = await server.read(name, sha)
    const status = json.statuses?.find(({ context }) => context === 'ci')
    return status && `${status.state}: ${status.description}`
  }

  return {
    server,
    name,
    path,
    token,
    proxy,
    folder,
    result,
    push(branch, script, { files = {}, at = Math.floor(Date.now() / 1_000) } = {}) {
      const all = { 'ci.sh': { text: script }, ...files }
      const changes = Object.entries(all).map(
        ([file, { mode = '100644', text }]: [string, { mode?: string; text: string }]) =>
          `M ${mode} inline ${file}\ndata ${Buffer.byteLength(text)}\n${text}\n`,
      )
      const message = `Push ${pushes++}`
      const head = `commit refs/heads/${branch}\nmark :1\ncommitter Ann <ann@example.org> ${at} +0000`
      const input = `${head}\ndata ${message.length}\n${message}\ndeleteall\n${changes.join('')}\nget-mark :1\n`
      return gitWith(path, input, 'fast-import', '--quiet', '--force', '--date-format=raw-permissive')
    },
    work(args = [], options = {}) {
      const env = { ...minimalEnvironment(), ...environment, ...options.env }
      return startHere(t, (signals) => work(argumentsOf(args, options), env, signals, quickTimes))
    },
    workAlone: (args = [], options = {}) =>
      commandLine(t, ['work', ...argumentsOf(args, options)], {
        program: quickWorker,
        ...options,
        env: { ...environment, ...options.env },
      }),
    async settled(sha) {
      let found: string | undefined
      await eventually(async () => {
        found = await result(sha)
        return found !== undefined && !found.startsWith('pending')
      })
      return found ?? ''
    },
    request: (sha) => server.report(name, sha, { state: 'pending', context: 'ci' }, token),
    jobs: () => (existsSync(join(folder, 'jobs')) ? readdirSync(join(folder, 'jobs')) : []),
  }
}

/** Longest wait for what starts several processes, on a machine that does other things too; in milliseconds. */
const LONGEST_WAIT = 90_000

/** Waits until a condition is true. */
export async function eventually(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = performance.now() + LONGEST_WAIT; !(await condition()); ) {
    if (performance.now() > end) throw new Error(`waited for ${LONGEST_WAIT} ms in vain`)
    await setTimeout(50)
  }
}

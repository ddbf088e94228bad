import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { freePort } from '../helpers/free-port.ts'
import { importCommits } from '../helpers/git.ts'
import { installCommit } from './checkout.ts'
import { type LoadRequest, UNIQUE } from './load.ts'
import { databaseClock, type ServerProcess, startProcess } from './processes.ts'
import { authorized, page, push, read, report } from './requests.ts'
import type { Scenario } from './scenario.ts'
import { createDatabase, serverSettings, startArgs } from './servers.ts'

/** One of several servers that are measured in turn. */
export interface ServerSide {
  name: string
  server: ServerProcess
  /** Replaces the process of `server` by a new one with the same data. */
  restart(): Promise<void>
}

/** The server of one commit of this project. All have equal data, but for ids and tokens. */
export interface Side extends ServerSide {
  folder: string
  /** Address of the inspector, if it is used. */
  inspector: string
  token: string
  /**
   * Creates a repository of alice with the command line of the server's own commit.
   *
   * @returns its path
   */
  createRepository(name: string, ...options: string[]): string
  /** Commits of `public` and of `private`. The first has 10 contexts, the others have none. */
  commits: string[]
  /** Of the first commit of `public`. */
  etag: string
}

/** A request to measure on each side. */
export interface SideRequest<Of extends ServerSide = Side> {
  name: string
  /** Sent in turn. */
  requestsOf(side: Of): LoadRequest[]
  /** Status of the answers. */
  status: number
  meanwhile?(side: Of): ReturnType<NonNullable<Scenario['meanwhile']>>
}

const COMMITS = 1_000
const CONTEXTS = 10
/** Commits of which reports replace a context: more than concurrent requests. */
const REPLACED = 112

export const sideRequests: SideRequest[] = [
  { name: 'read', requestsOf: ({ commits: [sha] }) => [read('public', sha)], status: 200 },
  {
    name: 'read, token',
    requestsOf: ({ commits: [sha], token }) => [read('private', sha, authorized(token))],
    status: 200,
  },
  {
    name: 'read, unchanged (304)',
    requestsOf: ({ commits: [sha], etag }) => [read('public', sha, { 'if-none-match': etag })],
    status: 304,
  },
  {
    name: 'report, replacing',
    requestsOf: ({ commits, token }) =>
      commits
        .slice(-REPLACED)
        .map((sha) => report('public', sha, token, { description: `412 tests passed in ${UNIQUE} s` })),
    status: 201,
  },
  {
    name: 'report, new context',
    requestsOf: ({ commits: [, ...others], token }) =>
      others.map((sha) => report('public', sha, token, { context: `ci/${UNIQUE}` })),
    status: 201,
  },
  pageRequest('home', () => '/'),
  pageRequest('repository', () => '/alice/public'),
  pageRequest('commit', ({ commits: [sha] }) => `/alice/public/commits/${sha}`),
  pageRequest('checks', () => '/alice/public/checks'),
]

/** Creates a branch with rules. Only its path is counted: the load generators send text. */
export const gatedPush: SideRequest = {
  name: 'push to a branch with rules',
  requestsOf: ({ commits: [sha = ''], token }) => [push('private', sha, token)],
  status: 200,
}

/**
 * Runs the servers of this folder and of other commits while `use` runs.
 *
 * @param how whether the inspector of each server listens, and the URL of a PostgreSQL server, whose
 * processor time then counts as theirs; null for SQLite
 */
export async function withSides<Result>(
  commits: string[],
  { inspected, postgres }: { inspected: boolean; postgres: string | null },
  use: (sides: Side[]) => Promise<Result>,
): Promise<Result> {
  const opened: (() => unknown)[] = []
  const databaseCpu = postgres === null ? () => 0 : await databaseClock(postgres)
  const open = async (name: string, folder: string): Promise<Side> => {
    const dataDir = mkdtempSync(join(tmpdir(), 'bench-'))
    opened.push(() => rmSync(dataDir, { recursive: true, force: true }))
    // The first release refuses clones that find no place.
    const databaseUrl = postgres && (await createDatabase(postgres))
    const env = { ...serverSettings({ dataDir, databaseUrl }), GIT_MAX_CHILDREN: '32' }
    const inspector = `127.0.0.1:${await freePort()}`
    const inspect = inspected ? [`--inspect=${inspector}`, '--inspect-publish-uid=http'] : []
    const start = async () => {
      const server = await startProcess([...inspect, ...startArgs(folder)], env, folder)
      return { ...server, cpu: () => server.cpu() + databaseCpu() }
    }
    const side = { server: await start() }
    opened.push(() => side.server.stop())
    return Object.assign(side, {
      name,
      folder,
      inspector,
      ...(await fill(name, folder, env, side.server)),
      async restart() {
        await side.server.stop()
        side.server = await start()
      },
    })
  }
  try {
    const sides = [await open('here', resolve(import.meta.dirname, '../..'))]
    for (const commit of commits) {
      const { folder, remove } = installCommit(commit)
      opened.push(remove)
      sides.push(await open(commit, folder))
    }
    return await use(sides)
  } finally {
    for (const close of opened.reverse()) await close()
  }
}

/** Creates the data with the command line and the API of the server's own commit. */
async function fill(
  name: string,
  folder: string,
  env: NodeJS.ProcessEnv,
  server: ServerProcess,
): Promise<Pick<Side, 'token' | 'createRepository' | 'commits' | 'etag'>> {
  const cli = (...args: string[]) =>
    execFileSync('npm', ['run', '--silent', 'cli', '--', ...args], {
      cwd: folder,
      env: { ...process.env, ...env },
      encoding: 'utf8',
    }).trim()
  const createRepository = (repository: string, ...options: string[]) =>
    cli('repo', 'create', `alice/${repository}`, ...options)
  const create = (repository: string, ...options: string[]) =>
    importCommits(createRepository(repository, ...options), COMMITS, (index) => `Commit ${index}`)
  const send = async (request: LoadRequest) => {
    const { status, etag } = await answerTo(server, request)
    if (status >= 300) throw new Error(`${name}: ${request.method} ${request.path}: ${status}`)
    return etag
  }
  cli('user', 'create', 'alice')
  const token = cli('token', 'create', 'alice')
  const commits = create('public')
  create('private', '--private')
  // The first release has no rules.
  if (/^ +rule /m.test(cli('--help')))
    cli('rule', 'set', 'alice/private', 'gated-*', '--require', 'ci/*', 'ci/check-0')
  const [sha] = commits
  for (const repository of ['public', 'private'])
    for (let index = 0; index < CONTEXTS; index++)
      await send(report(repository, sha, token, { context: `ci/check-${index}` }))
  return { token, createRepository, commits, etag: await send(read('public', sha)) }
}

/** Sends one request and reads the answer. */
export async function answerTo(
  server: ServerProcess,
  { method, path, headers, body }: LoadRequest,
): Promise<{ status: number; etag: string }> {
  const answer = await fetch(server.url + path, {
    method,
    headers,
    // A pack has any bytes.
    body: body === undefined ? null : Buffer.from(body.replace(UNIQUE, randomUUID()), 'latin1'),
  })
  await answer.arrayBuffer()
  return { status: answer.status, etag: answer.headers.get('etag') ?? '' }
}

function pageRequest(name: string, pathOf: (side: Side) => string): SideRequest {
  return { name: `page: ${name}`, requestsOf: (side) => [page(pathOf(side))], status: 200 }
}

import type { FastifyInstance } from 'fastify'
import type { Test } from 'tap'
import type { components } from '../../generated/schema.ts'
import { type AppOptions, buildApp } from '../../src/app.ts'
import { CommitLookup } from '../../src/git/objects/commit-lookup.ts'
import { openSpool } from '../../src/git-http/spool.ts'
import type { Store, StoreOptions } from '../../src/store/store.ts'
import { asAdministrator } from './changes.ts'
import { type Answer, checkAnswer } from './contract.ts'
import { openTestStore, sqlite, type TestDatabase } from './databases.ts'
import { addRepository, addToken, type RepositoryOptions, type TokenOptions } from './records.ts'

/**
 * A server on a free port with its own database and repositories, and the operations that tests
 * need.
 */
export interface TestServer {
  url: string
  dataDir: string
  store: Store
  /** Options that open the same database again. */
  options: StoreOptions
  app: FastifyInstance
  /** Sends a request and checks the answer against the contract. */
  call(method: string, path: string, options?: CallOptions): Promise<JsonAnswer>
  report(fullName: string, sha: string, body: unknown, token?: string): Promise<JsonAnswer>
  read(fullName: string, sha: string, token?: string, headers?: Record<string, string>): Promise<JsonAnswer>
  createUser(name: string): Promise<number>
  /** Creates a token, and its user if necessary. */
  createToken(user: string, options?: TokenOptions): Promise<string>
  /** Creates a repository with commits. */
  createRepository(fullName: string, options?: RepositoryOptions): ReturnType<typeof addRepository>
}

export interface CallOptions {
  token?: string | undefined
  headers?: Record<string, string> | undefined
  /** Text and bytes are sent as they are, anything else as JSON. */
  body?: unknown
}

type Schemas = components['schemas']

/**
 * Fields of the API's bodies. Which of them an answer has depends on its operation and status; the
 * contract check has compared them.
 */
export type JsonBody = Partial<
  Omit<
    Schemas['Status'] &
      Schemas['CommitStatuses'] &
      Schemas['CommitVerdict'] &
      Omit<Schemas['LastPassed'], 'next'> &
      Schemas['BranchPage'] &
      Schemas['Error'],
    'state'
  >
> & {
  state?: Schemas['Status']['state'] | Schemas['CommitStatuses']['state']
}

export interface JsonAnswer extends Answer {
  /** Empty without a JSON body. */
  json: JsonBody
}

export interface ServerOptions extends Partial<AppOptions> {
  database?: TestDatabase
  /** See `openSpool`. */
  spoolBytes?: number
  /** See `StoreOptions`. */
  signInEvery?: number
}

/** Starts a server in this process. The teardown stops it and removes its files. */
export async function startServer(
  t: Test,
  { database = sqlite, spoolBytes = 0, signInEvery = 0, ...options }: ServerOptions = {},
): Promise<TestServer> {
  const { store, options: storeOptions } = await openTestStore(t, database, { signInEvery })
  const lookup = new CommitLookup()
  const spool = await openSpool(storeOptions.dataDir, spoolBytes)
  // Other tests may keep the processors busy for longer than a server of its own would bear.
  const maxEventLoopDelay = 60_000
  const app = await buildApp({ store, lookup, spool, verifyReplies: true, maxEventLoopDelay, ...options })
  t.teardown(async () => {
    await app.close()
    await lookup.close()
  })
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  return testServer({ url, dataDir: storeOptions.dataDir, store, app, options: storeOptions })
}

/** Returns functions that send requests to `url` and check the answers against the contract. */
export function callerOf(url: string): Pick<TestServer, 'call' | 'report' | 'read'> {
  async function call(
    method: string,
    path: string,
    { token, headers, body }: CallOptions = {},
  ): Promise<JsonAnswer> {
    const isRaw = typeof body === 'string' || body instanceof Uint8Array
    const response = await fetch(url + path, {
      method,
      redirect: 'manual',
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: isRaw ? Buffer.from(body) : JSON.stringify(body) }),
    })
    const answer = { status: response.status, headers: response.headers, body: await response.text() }
    checkAnswer(method, path, answer)
    const isJson = answer.headers.get('content-type')?.startsWith('application/json') && answer.body !== ''
    return { ...answer, json: isJson ? JSON.parse(answer.body) : {} }
  }

  return {
    call,
    report: (fullName, sha, body, token) =>
      call('POST', `/api/v1/repos/${fullName}/statuses/${sha}`, { token, body }),
    read: (fullName, sha, token, headers) =>
      call('GET', `/api/v1/repos/${fullName}/commits/${sha}/statuses`, { token, headers }),
  }
}

function testServer(parts: Pick<TestServer, 'url' | 'dataDir' | 'store' | 'app' | 'options'>): TestServer {
  const { url, store } = parts

  async function createUser(name: string): Promise<number> {
    const user =
      (await store.users.find(name)) ??
      (await asAdministrator(store).users.create(name, { ownExisting: true }))
    return user.id
  }

  return {
    ...parts,
    ...callerOf(url),
    createUser,
    createToken: async (user, options) => (await addToken(store, await createUser(user), options)).secret,
    createRepository: (fullName, options) => addRepository(store, fullName, options),
  }
}

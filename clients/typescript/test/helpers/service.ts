import type { Test } from 'tap'
import { startServer, type TestServer } from '../../../../test/helpers/server.ts'
import { type FailingProxy, startFailingProxy } from './failing-proxy.ts'

/**
 * A real server behind a failing proxy, with a repository and a token that may write to it; no
 * commit is used twice.
 */
export interface Service {
  server: TestServer
  proxy: FailingProxy
  token: string
  /** The repository's folder. */
  path: string
  commits: string[]
  /** A commit of `acme/rocket`. */
  commit: { owner: string; repo: string; sha: string }
  /** `context state` of each status that is stored for the commit. */
  stored(sha?: string): Promise<string[]>
  /** The same with a proxy of its own, about a new commit. */
  again(): Promise<Service>
}

/** Starts all of it; everything ends with the test. */
export async function startService(t: Test, { commits: count = 1 } = {}): Promise<Service> {
  const server = await startServer(t)
  const { path, commits } = await server.createRepository('acme/rocket', { commits: count })
  const token = await server.createToken('acme')
  const unused = [...commits]

  async function next(): Promise<Service> {
    const sha = unused.shift() ?? ''
    return {
      server,
      proxy: await startFailingProxy(t, server.url),
      token,
      path,
      commits,
      commit: { owner: 'acme', repo: 'rocket', sha },
      async stored(id = sha) {
        const answer = await server.read('acme/rocket', id)
        return (answer.json.statuses ?? []).map(({ context, state }) => `${context} ${state}`)
      },
      again: next,
    }
  }
  return next()
}

import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openStore, type Store } from '../../src/store/store.ts'
import { startInstance } from '../helpers/instance.ts'

/** A server in its own process, on a database that the run can administer. */
export interface OwnServer {
  url: string
  store: Store
  /** Stops the process and removes its files. */
  stop(): Promise<void>
}

/**
 * Starts a server.
 *
 * @param failureLimit failed authentications before an address is blocked
 * @param nodeOptions arguments of node before the program
 */
export async function startOwnServer(
  failureLimit: number,
  environment: Record<string, string> = {},
  nodeOptions: readonly string[] = [],
): Promise<OwnServer> {
  const dataDir = await mkdtemp(join(tmpdir(), 'contract-'))
  const ends: (() => unknown)[] = []
  const teardown = (end: () => unknown) => void ends.push(end)
  const settings = { AUTH_FAILURE_LIMIT: String(failureLimit), ...environment }
  const { url, child } = await startInstance({ teardown }, { dataDir }, settings, nodeOptions)
  const store = await openStore({ dataDir })
  return {
    url,
    store,
    async stop() {
      await store.close()
      const exited = once(child, 'exit')
      for (const end of ends) end()
      await exited
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

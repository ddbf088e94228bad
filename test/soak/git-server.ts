import { type ChildProcess, spawn } from 'node:child_process'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { createToken, hashToken, tokenPrefix } from '../../src/auth/token.ts'
import { createBareRepository } from '../../src/git/repository.ts'
import type { Store } from '../../src/store/store.ts'
import { basic } from '../git-http/client.ts'

const program = resolve(import.meta.dirname, '../../src/server.ts')

/** A server in its own process. */
export interface ServerProcess {
  child: ChildProcess
  url: string
}

/** Starts a server on a free port. Its log goes to standard output. */
export async function startServerProcess(environment: Record<string, string>): Promise<ServerProcess> {
  const child = spawn(process.execPath, [program], {
    env: { PATH: process.env.PATH, PORT: '0', LOG_LEVEL: 'error', ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  for await (const line of createInterface({ input: child.stdout })) {
    const [, url] = /^Listening on (.*)$/.exec(line) ?? []
    if (url !== undefined) return { child, url }
    process.stdout.write(`${line}\n`)
  }
  throw new Error('the server did not start')
}

/** Creates a user with a token, and a private repository. Returns it with the header that gives access to it. */
export async function createOwnedRepository(store: Store, owner: string, name: string) {
  const user = await store.users.create(owner)
  const token = createToken()
  await store.tokens.create({
    userId: user.id,
    name: 'soak',
    prefix: tokenPrefix(token),
    hash: hashToken(token),
    scopes: ['repo'],
    expiresAt: null,
  })
  const repository = await store.repositories.create(
    { owner, name, visibility: 'private', objectFormat: 'sha1' },
    (place) => createBareRepository(place, 'sha1'),
  )
  return { repository, authorization: basic('x', token) }
}

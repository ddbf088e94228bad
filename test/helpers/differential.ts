import { join } from 'node:path'
import type { Test } from 'tap'
import { createToken, hashToken, tokenPrefix } from '../../src/auth/token.ts'
import { createBareRepository } from '../../src/git/repository.ts'
import { asAdministrator } from './changes.ts'
import { type TestDatabase, temporaryFolder } from './databases.ts'
import { createCommits } from './git.ts'
import { createRandom, type Random } from './random.ts'
import { type CallOptions, type JsonAnswer, startServer, type TestServer } from './server.ts'

/** What the compared servers have in common. */
interface Fixture {
  repository: string
  commits: string[]
  /** By user. */
  tokens: Record<string, string>
}

/** A request, or a change by the administrator. */
type Operation =
  | { kind: 'call'; method: string; path: string; options: CallOptions }
  | { kind: 'access'; user: string; permission: 'read' | 'write' | null }
  | { kind: 'visibility'; visibility: 'public' | 'private' }
  | { kind: 'delete' }

/**
 * Starts one server per kind of database with the same content, applies the same random operations
 * to each, and returns the first difference between their answers, ignoring ids and times.
 */
export async function compareDatabases(
  t: Test,
  databases: readonly TestDatabase[],
  { operations, seed }: { operations: number; seed: number },
): Promise<{ difference: string | null; statuses: Map<number, number> }> {
  const random = createRandom(seed)
  const fixture = await createFixture(t)
  const servers: TestServer[] = []
  for (const database of databases) servers.push(await startWith(t, database, fixture))
  const normalizers = servers.map(() => createNormalizer())
  const statuses = new Map<number, number>()
  for (let index = 0; index < operations; index++) {
    const operation = randomOperation(random, fixture)
    const answers = await Promise.all(servers.map((server) => perform(server, operation, fixture)))
    const [first, ...others] = answers.map((answer, at) => normalizers[at]?.(answer))
    for (const answer of answers)
      if (answer) statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
    const other = others.find((answer) => answer !== first)
    if (other !== undefined) {
      return { difference: `${index}: ${JSON.stringify(operation)}\n${first}\n${other}`, statuses }
    }
  }
  return { difference: null, statuses }
}

async function createFixture(t: Test): Promise<Fixture> {
  const repository = join(temporaryFolder(t), 'shared.git')
  await createBareRepository(repository, 'sha1')
  const users = ['owner', 'writer', 'stranger', 'limited', 'expired', 'unknown']
  return {
    repository,
    commits: createCommits(repository, 4),
    tokens: Object.fromEntries(users.map((user) => [user, createToken()])),
  }
}

async function startWith(t: Test, database: TestDatabase, fixture: Fixture): Promise<TestServer> {
  const server = await startServer(t, { database, budget: { limit: 1_000_000, window: 3_600 } })
  for (const [user, token] of Object.entries(fixture.tokens)) {
    if (user === 'unknown') continue
    await asAdministrator(server.store).tokens.create({
      userId: await server.createUser(user),
      name: user,
      prefix: tokenPrefix(token),
      hash: hashToken(token),
      scopes: user === 'limited' ? [] : ['repo'],
      expiresAt: user === 'expired' ? 1 : null,
    })
  }
  for (const name of ['open', 'secret', 'doomed']) await importRepository(server, name, fixture)
  return server
}

async function importRepository({ store }: TestServer, name: string, fixture: Fixture): Promise<void> {
  const visibility = name === 'secret' ? 'private' : 'public'
  const repository = {
    owner: 'owner',
    name,
    visibility,
    objectFormat: 'sha1',
    path: fixture.repository,
  } as const
  await asAdministrator(store).repositories.create(repository)
}

function randomOperation(random: Random, { commits, tokens }: Fixture): Operation {
  if (random.onceIn(40)) {
    const permission = random.pick(['read', 'write', null])
    return { kind: 'access', user: random.pick(['writer', 'stranger']), permission }
  }
  if (random.onceIn(60)) return { kind: 'visibility', visibility: random.pick(['public', 'private']) }
  if (random.onceIn(200)) return { kind: 'delete' }
  const name = random.onceIn(15)
    ? random.pick(['missing', 'OPEN', 'open%20', '%C3%B6pen', 'x'.repeat(120), 'secret.git'])
    : random.pick(['open', 'open', 'secret', 'doomed'])
  const [known = '', ...others] = commits
  const sha = random.onceIn(10)
    ? random.pick([known.toUpperCase(), 'f'.repeat(40), 'a'.repeat(64), known.slice(0, 12), 'main'])
    : random.pick([known, known, ...others])
  const user = random.pick([
    'owner',
    'owner',
    'owner',
    'writer',
    'stranger',
    'limited',
    'expired',
    'unknown',
    '',
  ])
  const token = tokens[user]
  const path = `/api/v1/repos/owner/${name}`
  if (random.onceIn(2)) {
    const headers = random.onceIn(8) ? { 'if-none-match': '*' } : undefined
    const method = random.onceIn(10) ? 'HEAD' : 'GET'
    return { kind: 'call', method, path: `${path}/commits/${sha}/statuses`, options: { token, headers } }
  }
  const options = { token, body: randomBody(random) }
  return { kind: 'call', method: 'POST', path: `${path}/statuses/${sha}`, options }
}

function randomBody(random: Random): unknown {
  if (random.onceIn(25))
    return random.pick(['', '{', '[]', 'null', '{"state":1}', '{"state":"ok"}', '\u00ff'])
  return {
    state: random.pick(['pending', 'success', 'failure', 'error']),
    ...(!random.onceIn(6) && { context: randomText(random, random.pick([1, 2, 3, 3, 255, 256])) }),
    ...(random.onceIn(2) && { description: randomText(random, random.pick([0, 1, 40, 1024, 1025])) }),
    ...(random.onceIn(3) && { target_url: `https://example.org/${randomText(random, 2)}` }),
    ...(random.onceIn(20) && {
      [random.pick(['target_url', 'description', 'context'])]: random.pick(['', null, 7]),
    }),
  }
}

/**
 * Few characters, so that contexts repeat; from different planes of Unicode, so that their order
 * matters.
 */
function randomText(random: Random, length: number): string {
  const character = () =>
    random.pick([
      'a',
      'A',
      'b',
      '_',
      '-',
      ' ',
      '/',
      '\u00e9',
      'e\u0301',
      '\u0130',
      '\uFF41',
      '\u{1D41A}',
      '\u{10FFFF}',
    ])
  const text = Array.from({ length }, character).join('')
  return random.onceIn(60) ? text + random.pick(['\u0000', '\ud800', '\u0001', '\u2028']) : text
}

async function perform(
  server: TestServer,
  operation: Operation,
  fixture: Fixture,
): Promise<JsonAnswer | null> {
  const { repositories, collaborators } = asAdministrator(server.store)
  switch (operation.kind) {
    case 'call':
      return server.call(operation.method, operation.path, operation.options)
    case 'access':
      await collaborators.set(
        { owner: 'owner', name: 'secret' },
        await server.createUser(operation.user),
        operation.permission,
      )
      return null
    case 'visibility':
      await repositories.setVisibility({ owner: 'owner', name: 'open' }, operation.visibility)
      return null
    case 'delete':
      await repositories.delete({ owner: 'owner', name: 'doomed' })
      await importRepository(server, 'doomed', fixture)
      return null
  }
}

/**
 * Returns a function that renders an answer without times and with ids numbered in the order of
 * their first appearance.
 */
function createNormalizer() {
  const ids = new Map<string, number>()
  return (answer: JsonAnswer | null): string => {
    if (!answer) return ''
    const headers = [...answer.headers].filter(([name]) => !/^(date|x-request-id|etag)$/.test(name))
    const body = answer.body
      .replace(/"id":"([^"]+)"/g, (_match, id: string) => {
        const number = ids.get(id) ?? ids.size
        ids.set(id, number)
        return `"id":${number}`
      })
      .replace(/"(created|updated)_at":"[^"]+"/g, '"$1_at":0')
    return JSON.stringify([answer.status, headers, body])
  }
}

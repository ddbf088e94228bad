import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import { issueToken } from '../../src/auth/issue-token.ts'
import { ADMINISTRATOR } from '../../src/store/audit.ts'
import { openStore, type StoreOptions } from '../../src/store/store.ts'
import { NO_LIMITS } from '../../src/store/token-limits.ts'
import { startInstance } from '../helpers/instance.ts'
import { KeepAliveClient, requestBytes } from '../helpers/keep-alive.ts'
import { startPostgres } from '../helpers/postgres-server.ts'
import { insertSession } from '../helpers/sessions.ts'

/**
 * Measures whether the time of an answer tells a private repository from a missing one.
 *
 * Requests for private repositories, for missing ones and for other missing ones (the control) follow each other in
 * random order on one connection. Printed are the difference of the medians and the probability that a request for a
 * private repository takes longer than one for a missing one (AUC: 0.5 when the time tells nothing). What
 * is beyond its limit is measured again, up to twice: the exit code is 1 when it is beyond the limit each time.
 *
 * Cold: something is written before each request, so that the server has nothing in memory to answer from. On PostgreSQL
 * it never has.
 */
const SAMPLES = 4_000
const WARM_UP = 1_500
const NAMES = 60
/** Microseconds. */
const MAX_DIFFERENCE = 2
const [MIN_AUC, MAX_AUC] = [0.45, 0.55]
const SHA = 'a'.repeat(40)

type Headers = Record<string, string>
interface ByGroup<T> {
  private: T
  missing: T
  control: T
}

const ends: (() => unknown)[] = []
const print = (line: string) => process.stdout.write(`${line}\n`)
let failures = 0

function byGroup<T>(make: (group: keyof ByGroup<T>) => T): ByGroup<T> {
  return { private: make('private'), missing: make('missing'), control: make('control') }
}

interface Credentials {
  /** Of a user without access. */
  token: string
  /** Of the owner of the repositories, limited to another one. */
  limited: string
  cookie: string
}

/** What is asked for, and the headers by which a signed-in caller and a limited token without access do. */
function requestsOf({ token, limited, cookie }: Credentials) {
  const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` })
  const basic = (secret: string) => ({
    authorization: `Basic ${Buffer.from(`x:${secret}`).toString('base64')}`,
  })
  const report = JSON.stringify({ state: 'success' })
  const api = (name: string) => `/api/v1/repos/acme/${name}`
  return [
    {
      what: 'API read',
      anonymous: 401,
      signedIn: bearer(token),
      limited: bearer(limited),
      bytes: (name: string, headers: Headers) =>
        requestBytes('GET', `${api(name)}/commits/${SHA}/statuses`, headers),
    },
    {
      what: 'API report',
      anonymous: 401,
      signedIn: bearer(token),
      limited: bearer(limited),
      bytes: (name: string, headers: Headers) =>
        requestBytes('POST', `${api(name)}/statuses/${SHA}`, headers, report),
    },
    {
      what: 'git fetch',
      anonymous: 401,
      signedIn: basic(token),
      limited: basic(limited),
      bytes: (name: string, headers: Headers) =>
        requestBytes('GET', `/acme/${name}.git/info/refs?service=git-upload-pack`, headers),
    },
    {
      what: 'page',
      anonymous: 303,
      signedIn: { cookie: `session=${cookie}` },
      limited: null,
      bytes: (name: string, headers: Headers) => requestBytes('GET', `/acme/${name}`, headers),
    },
  ]
}

/** A user without access, and private repositories, whose files nobody ever gets to. */
async function prepare(options: StoreOptions) {
  const store = await openStore(options)
  const { id: userId } = await store.users.create('stranger')
  const request = { userId, name: '', scopes: ['repo'], expiresAt: null }
  const token = await issueToken(store.tokens, request, ADMINISTRATOR)
  const cookie = randomBytes(32).toString('base64url')
  await insertSession(store, createHash('sha256').update(cookie).digest('hex'), userId)
  const names = byGroup(() => Array.from({ length: NAMES }, () => randomBytes(8).toString('hex')))
  for (const name of names.private) {
    await store.repositories.create({ owner: 'acme', name, visibility: 'private', objectFormat: 'sha1' })
  }
  const owner = await store.users.create('acme', { ownExisting: true })
  const another = await store.repositories.create({
    owner: 'acme',
    name: 'another',
    visibility: 'private',
    objectFormat: 'sha1',
  })
  const limits = { ...NO_LIMITS, repositories: [another.id] }
  const limited = await issueToken(store.tokens, { ...request, userId: owner.id, limits }, ADMINISTRATOR)
  await store.close()
  return { names, credentials: { token: token.secret, limited: limited.secret, cookie } }
}

/** Sends requests of all groups in random order. @returns microseconds */
async function sample(
  client: KeepAliveClient,
  requests: ByGroup<Buffer[]>,
  status: number,
  before: () => void,
): Promise<ByGroup<number[]>> {
  const times = byGroup((): number[] => [])
  for (let index = -WARM_UP; index < 3 * SAMPLES; index++) {
    const group = pick(['private', 'missing', 'control'] as const)
    before()
    const answer = await client.send(pick(requests[group]))
    assert.equal(answer.status, status)
    if (index >= 0) times[group].push(answer.time * 1_000)
  }
  return times
}

function pick<T>(list: readonly T[]): T {
  const picked = list[Math.floor(Math.random() * list.length)]
  if (picked === undefined) throw new Error('the list is empty')
  return picked
}

function median(times: readonly number[]): number {
  return [...times].sort((a, b) => a - b)[times.length >> 1] ?? Number.NaN
}

/** The probability that one of `those` is larger than one of `others`; equal ones count half (Mann-Whitney). */
function auc(those: readonly number[], others: readonly number[]): number {
  const sorted = [...others].sort((a, b) => a - b)
  /** How many of the others are smaller than `value`, or with `orEqual` not larger. */
  const below = (value: number, orEqual: boolean) => {
    let [low, high] = [0, sorted.length]
    while (low < high) {
      const middle = (low + high) >> 1
      const other = sorted[middle] ?? Number.NaN
      if (other < value || (orEqual && other === value)) low = middle + 1
      else high = middle
    }
    return low
  }
  const wins = those.reduce((sum, value) => sum + (below(value, false) + below(value, true)) / 2, 0)
  return wins / (those.length * others.length)
}

/** @returns whether the times are within the limits */
function compare(name: string, times: ByGroup<number[]>): boolean {
  const against = (group: 'private' | 'control') => {
    const difference = median(times[group]) - median(times.missing)
    const area = auc(times[group], times.missing)
    const text = `${difference.toFixed(2).padStart(6)} µs, AUC ${area.toFixed(3)}`
    return { text, tells: Math.abs(difference) >= MAX_DIFFERENCE || area < MIN_AUC || area > MAX_AUC }
  }
  const { text, tells } = against('private')
  print(
    `${name.padEnd(42)} ${text}; control ${against('control').text}; ` +
      `median ${median(times.missing).toFixed(0)} µs${tells ? '  BEYOND THE LIMIT' : ''}`,
  )
  return !tells
}

/** @param modes what is done before each request, by name */
async function measure(name: string, options: StoreOptions, modes: Map<string, () => void>): Promise<void> {
  const { names, credentials } = await prepare(options)
  const { url } = await startInstance({ teardown: (end: () => unknown) => void ends.unshift(end) }, options)
  const client = await KeepAliveClient.open(url)
  for (const { what, anonymous, signedIn, limited, bytes } of requestsOf(credentials)) {
    for (const [caller, headers, status] of [
      ['anonymous', {}, anonymous],
      ['no access', signedIn, 404],
      ['limited token', limited, 404],
    ] as const) {
      if (headers === null) continue
      const requests = byGroup((group) => names[group].map((repository) => bytes(repository, headers)))
      for (const [mode, before] of modes) {
        const attempt = async () =>
          compare(`${name}, ${what}, ${caller}${mode}`, await sample(client, requests, status, before))
        // Other work on the machine does not slow down the same group three times.
        if (!((await attempt()) || (await attempt()) || (await attempt()))) failures++
      }
    }
  }
  client.close()
}

try {
  const dataDir = mkdtempSync(join(tmpdir(), 'soak-timing-'))
  ends.push(() => rmSync(dataDir, { recursive: true, force: true }))
  await (await openStore({ dataDir })).close()
  const other = new Sqlite(join(dataDir, 'commit-status.db'))
  ends.unshift(() => other.close())
  other.pragma('synchronous = off')
  const write = other.prepare('update users set created_at = created_at + 1')
  const modes = new Map([
    [', warm', () => {}],
    [', cold', () => void write.run()],
  ])
  await measure('SQLite', { dataDir }, modes)
  const postgres = await startPostgres()
  ends.unshift(() => postgres.stop())
  await measure('PostgreSQL', { dataDir, databaseUrl: postgres.url }, new Map([['', () => {}]]))
} finally {
  for (const end of ends) await end()
}
if (failures > 0) process.exitCode = 1

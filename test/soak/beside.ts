import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import http from 'node:http'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import tap, { type Test } from 'tap'
import { openWorkPlace } from '../../clients/typescript/test/helpers/working.ts'
import type { StoreOptions } from '../../src/store/store.ts'
import { installCommit } from '../bench/checkout.ts'
import { startProcess } from '../bench/processes.ts'
import { serverSettings, startArgs } from '../bench/servers.ts'
import { databases, databaseUrl, execute, type TestDatabase, temporaryFolder } from '../helpers/databases.ts'
import { listenLocally } from '../helpers/free-port.ts'
import { passTime } from '../helpers/pass-time.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'
import { createRandom, type Random } from '../helpers/random.ts'
import { callerOf, startServer } from '../helpers/server.ts'
import { recordEvidence } from './parts/evidence.ts'

/**
 * Claims and workers while a server of version 0.4.0, which ignores claims, is still beside this one on
 * the same database: `npm run soak -- beside`.
 */
const RELEASED = '42cfb45a'
const WORKERS = 40

tap.setTimeout(1_800_000)
await provideDatabases(tap)
const checkout = installCommit(RELEASED)
tap.teardown(checkout.remove)

/** Returns options of a database that does not exist yet, or is empty. */
async function createEmpty(t: Test, { name }: TestDatabase): Promise<StoreOptions> {
  const dataDir = temporaryFolder(t)
  if (name === 'SQLite') return { dataDir }
  const server = process.env.TEST_DATABASE_URL ?? ''
  const database = `beside_${randomBytes(6).toString('hex')}`
  await execute(server, `create database ${database}`)
  return { dataDir, databaseUrl: databaseUrl(server, database) }
}

/** Starts the old server with an empty database, and then one of this version beside it. */
async function openBoth(t: Test, database: TestDatabase) {
  const options = await createEmpty(t, database)
  const env = serverSettings(options)
  const create = ['run', '--silent', 'cli', '--', 'user', 'create', 'acme']
  execFileSync('npm', create, { cwd: checkout.folder, env: { ...process.env, ...env } })
  const old = await startProcess(startArgs(checkout.folder), env, checkout.folder)
  t.teardown(() => old.stop())
  const server = await startServer(t, { database: { ...database, create: async () => options } })
  return { server, old: callerOf(old.url), oldUrl: old.url }
}

for (const database of databases) {
  tap.test(`${database.name}: what the old server stores counts as a report without a claim`, async (t) => {
    const { server, old } = await openBoth(t, database)
    const { commits } = await server.createRepository('acme/rocket', { commits: 1 })
    const [sha = ''] = commits
    const token = await server.createToken('acme')
    let context = ''
    const report =
      (to: Pick<typeof server, 'report'>) =>
      async (state: string, run?: string, claim = run && 300) => {
        const answer = await to.report('acme/rocket', sha, { state, context, run, claim }, token)
        const retryAfter = Number(answer.headers.get('retry-after') ?? 0)
        return [answer.status, 'claimed_until' in answer.json, Math.round(retryAfter / 10) * 10]
      }
    const [here, there] = [report(server), report(old)]
    const pass = (seconds: number) => passTime(server.store, seconds, { context })
    const held = [201, true, 0]
    const stored = [201, false, 0]

    context = 'another run through the old server'
    t.strictSame(await here('pending', 'R'), held)
    await pass(20)
    t.strictSame(await there('pending', 'S'), stored, 'it takes the check, and says of no claim')
    t.strictSame(await here('success', 'R'), [409, false, 300])
    t.strictSame(await here('pending', 'T'), [409, false, 300])
    await pass(290)
    t.strictSame(await here('pending', 'T'), [409, false, 10])
    await pass(12)
    t.strictSame(await here('pending', 'T'), held)

    context = 'the same run through the old server'
    t.strictSame(await here('pending', 'R'), held)
    await pass(100)
    t.strictSame(await there('pending', 'R'), stored)
    t.strictSame(await here('pending', 'S'), [409, false, 300])
    t.strictSame(await here('pending', 'R'), held)
    t.strictSame(await there('success', 'R'), stored)
    t.strictSame(await here('pending', 'R'), [409, false, 0], 'too late')
    t.strictSame(await here('pending', 'S'), [409, false, 0], 'there is a result')

    context = 'a request through the old server'
    t.strictSame(await here('pending', 'R'), held)
    t.strictSame(await there('pending'), stored)
    t.strictSame(await here('pending', 'R'), [409, false, 0])
    t.strictSame(await here('success', 'R'), [409, false, 0])
    await pass(2)
    t.strictSame(await here('pending', 'R'), [409, false, 0], 'it was the last one to claim')
    t.strictSame(await here('pending', 'S'), held)

    context = 'a result of no run through the old server'
    t.strictSame(await here('pending', 'R'), held)
    t.strictSame(await there('failure'), stored)
    t.strictSame(await here('success', 'R'), [409, false, 0])
    await pass(1_000)
    t.strictSame(await here('pending', 'S'), [409, false, 0])
  })

  tap.test(`${database.name}: no command runs without a claim`, async (t) => {
    const { server, oldUrl } = await openBoth(t, database)
    const place = await openWorkPlace(t, server, 'acme/rocket')
    const journal = join(temporaryFolder(t), 'journal')
    const random = createRandom(Date.now() % 100_000)
    const proxy = await startBalancer(t, [server.url, oldUrl], random)
    const codes: Record<string, number> = {}
    const shas: string[] = []
    for (let count = 0; count < WORKERS; count++) {
      shas.push(place.push(`b${count}`, 'echo "$COMMIT_STATUS_RUN" >> "$JOURNAL"'))
      const env = { COMMIT_STATUS_URL: proxy.url, JOURNAL: journal }
      const { code, stderr } = await place.work(['--once'], { env }).finished
      codes[`${code}`] = (codes[`${code}`] ?? 0) + 1
      // The old server refuses the list later too.
      if (code !== 0) t.match(stderr, /the server is too old|This path does not exist/)
    }
    const runs = existsSync(journal) ? readFileSync(journal, 'utf8').trim().split('\n') : []
    for (const run of runs) t.ok(proxy.held.has(run), `${run} was claimed`)
    t.ok((codes['5'] ?? 0) > 0 && proxy.unclaimed > 0, JSON.stringify(codes))

    // Claims that the old server has stored end after 300 s.
    await passTime(server.store, 400, { context: 'ci' })
    const env = { COMMIT_STATUS_URL: server.url, JOURNAL: journal }
    t.equal((await place.work(['--once'], { env }).finished).code, 0)
    for (const sha of shas) t.match(await place.result(sha), /^success/)
    t.comment(JSON.stringify({ codes, runs: runs.length, unclaimed: proxy.unclaimed }))
    if (!t.passing()) return
    recordEvidence(
      'beside',
      `workers got their answers from this version or from 0.4.0 beside it on ${database.name}, at random`,
      `${WORKERS} workers, of which ${codes['5']} ended because the server is too old: ${proxy.unclaimed} claims were stored by the old server and none of their commands was run, and each of the ${runs.length} others had been claimed; afterwards each commit got its result`,
    )
  })
}

/** Leads each request to one of the servers, and records which runs got a claim. */
async function startBalancer(t: Test, urls: readonly [string, string], random: Random) {
  const held = new Set<string>()
  const counts = { unclaimed: 0 }
  const proxy = http.createServer(async (request, response) => {
    const { method = '', url = '', headers } = request
    const body = method === 'POST' ? await buffer(request) : null
    const own = Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)])
    const sent = own.filter(([name]) => !['host', 'connection', 'content-length'].includes(name))
    // The old one has no list of what waits, which ends most workers before they claim.
    const isOld = random.onceIn(url.includes('/awaiting') ? 10 : 2)
    const answer = await fetch(urls[isOld ? 1 : 0] + url, {
      method,
      headers: sent,
      body: body && new Uint8Array(body),
    })
    const bytes = Buffer.from(await answer.arrayBuffer())
    if (body && url.includes('/statuses/') && answer.status === 201) {
      const { run } = JSON.parse(body.toString())
      if ('claimed_until' in JSON.parse(bytes.toString())) held.add(run)
      else if (!held.has(run)) counts.unclaimed++
    }
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' })
    response.end(bytes)
  })
  const port = await listenLocally(proxy)
  t.teardown(() => {
    proxy.close()
    proxy.closeAllConnections()
  })
  return {
    url: `http://127.0.0.1:${port}`,
    held,
    get unclaimed() {
      return counts.unclaimed
    },
  }
}

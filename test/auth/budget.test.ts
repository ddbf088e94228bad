import { PassThrough } from 'node:stream'
import { sql } from 'kysely'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { buildApp } from '../../src/app.ts'
import { createToken } from '../../src/auth/token.ts'
import { createProgram } from '../../src/cli/program.ts'
import { CommitLookup } from '../../src/git/objects/commit-lookup.ts'
import { openSpool } from '../../src/git-http/spool.ts'
import { parseCidr } from '../../src/http/address.ts'
import { openEngine, openStore } from '../../src/store/store.ts'
import { databases, type TestDatabase } from '../helpers/databases.ts'
import { type CallOptions, startServer, type TestServer } from '../helpers/server.ts'

const LIMIT = 5
const budget = { limit: LIMIT, window: 300 }
const bad = () => ({ authorization: `Bearer ${createToken()}` })

async function setUp(t: Test, database: TestDatabase, options: Parameters<typeof startServer>[1] = {}) {
  const server = await startServer(t, { database, budget, ...options })
  const { commits } = await server.createRepository('acme/rocket')
  const [sha = ''] = commits
  const token = await server.createToken('acme')
  const path = `/api/v1/repos/acme/rocket/commits/${sha}/statuses`
  const ask = async (headers: CallOptions['headers']) => (await server.call('GET', path, { headers })).status
  const engine = await openEngine({ ...server.options, statementTimeout: false })
  t.teardown(() => engine.close())
  /** Runs a statement and returns its rows. */
  const query = async (text: string) =>
    (await sql.raw<Record<string, unknown>>(text).execute(engine.kysely)).rows
  return { server, sha, token, path, ask, query }
}

const count = (statuses: number[], wanted: number) => statuses.filter((status) => status === wanted).length

/** Sends bad tokens and returns the statuses. */
async function fail(ask: (headers: CallOptions['headers']) => Promise<number>, times: number, more = {}) {
  const statuses: number[] = []
  for (let index = 0; index < times; index++) statuses.push(await ask({ ...bad(), ...more }))
  return statuses
}

/** Starts a second server on the database of the first. */
async function startAnother(t: Test, { options }: TestServer): Promise<string> {
  const store = await openStore(options)
  const lookup = new CommitLookup()
  const app = await buildApp({ store, lookup, spool: await openSpool(options.dataDir, 0), budget })
  t.teardown(async () => {
    await app.close()
    await lookup.close()
    await store.close()
  })
  return app.listen({ host: '127.0.0.1', port: 0 })
}

for (const database of databases) {
  t.test(database.name, async (t) => {
    t.test('of any number of concurrent failures exactly as many as the budget allows get 401', async (t) => {
      const { server, path, token, sha, ask } = await setUp(t, database)
      const answers = await Promise.all(
        Array.from({ length: 60 }, () => server.call('GET', path, { headers: bad() })),
      )
      const statuses = answers.map(({ status }) => status)
      t.equal(count(statuses, 401), LIMIT)
      t.equal(count(statuses, 429), 60 - LIMIT)
      for (const { status, headers, json } of answers) {
        if (status !== 429) continue
        const seconds = headers.get('retry-after') ?? ''
        t.match(seconds, /^[1-9]\d*$/, 'whole seconds')
        t.ok(Number(seconds) <= 300)
        t.match(
          json.error,
          /^Too many failed authentication attempts from this address\. Try again in \d+ seconds\.$/,
        )
      }

      t.equal(await ask({ authorization: `Bearer ${token}` }), 429, 'a good token too')
      t.equal(
        (await server.report('acme/rocket', sha, { state: 'success' }, token)).status,
        429,
        'a report too',
      )
      t.equal(await ask({ authorization: 'Bearer ' }), 429, 'a scheme without a value')
      t.equal(await ask({ authorization: 'Basic x' }), 429, 'a malformed credential')
      t.equal(await ask({}), 200, 'anonymous requests are never blocked')
      t.equal(await ask({ authorization: '' }), 200, 'an empty header is no credential')
      t.equal((await server.report('acme/rocket', sha, { state: 'success' })).status, 401)
    })

    t.test('the window begins with the first failure, and a 429 does not lengthen it', async (t) => {
      const { ask, token, query } = await setUp(t, database)
      const endsAt = async () => (await query('select ends_at from auth_failures'))[0]?.ends_at
      const earliest = Date.now() + 300_000
      await ask(bad())
      const end = await endsAt()
      t.ok(Number(end) >= earliest && Number(end) <= Date.now() + 300_000)
      t.same(await fail(ask, LIMIT + 3), [401, 401, 401, 401, 429, 429, 429, 429].slice(0, LIMIT + 3))
      t.equal(await endsAt(), end)

      // Ends the window.
      await query(`update auth_failures set ends_at = ${Date.now()}`)
      t.equal(await ask({ authorization: `Bearer ${token}` }), 200, 'the block ends with the window')
      const again = await fail(ask, LIMIT + 1)
      t.equal(count(again, 401), LIMIT, 'counting restarts at zero')
      t.ok(Number(await endsAt()) > Number(end), 'in a new window')
    })

    t.test('a success does not reset the count', async (t) => {
      const { ask, token } = await setUp(t, database)
      await fail(ask, LIMIT - 1)
      t.equal(await ask({ authorization: `Bearer ${token}` }), 200)
      t.equal(await ask(bad()), 401)
      t.equal(await ask(bad()), 429)
    })

    t.test('what counts as a failure', async (t) => {
      const { server, ask, token, query } = await setUp(t, database, { budget: { limit: 1000, window: 300 } })
      const failures = async () => (await query('select failures from auth_failures'))[0]?.failures ?? 0
      const expired = await server.createToken('acme', { expiresAt: Date.now() - 1 })
      let expected = 0
      for (const authorization of [
        `Bearer ${createToken()}`,
        `token ${expired}`,
        'Bearer nonsense',
        'Basic YWNtZTpyb2NrZXQ=',
        'Digest username="acme"',
        token,
        `Bearer ${token} x`,
      ]) {
        t.equal(await ask({ authorization }), 401)
        t.equal(await failures(), ++expected, authorization.replaceAll(token, 'TOKEN'))
      }
    })

    t.test('what does not count as a failure', async (t) => {
      const { server, sha, ask, token, query } = await setUp(t, database, {
        budget: { limit: 1, window: 300 },
      })
      const noScope = await server.createToken('acme', { scopes: [] })
      const stranger = await server.createToken('stranger')
      await server.createRepository('acme/private', { private: true, commits: 0 })
      const broken = await server.createRepository('acme/broken', { commits: 0 })
      const repository = await server.store.repositories.get('acme', 'broken')
      await query(`update repositories set path = '${broken.path}/gone' where id = ${repository.id}`)
      const rows = [
        [401, 'no credential, read', await server.read('acme/private', sha)],
        [401, 'no credential, write', await server.report('acme/rocket', sha, { state: 'success' })],
        [
          401,
          'a scheme without a value',
          await server.read('acme/rocket', sha, undefined, { authorization: 'Bearer ' }),
        ],
        [403, 'no scope', await server.read('acme/rocket', sha, noScope)],
        [403, 'read only', await server.report('acme/rocket', sha, { state: 'success' }, stranger)],
        [404, 'no access', await server.read('acme/private', sha, stranger)],
        [404, 'no commit', await server.read('acme/rocket', 'f'.repeat(40), token)],
        [422, 'an invalid field', await server.report('acme/rocket', sha, {}, token)],
        [400, 'no JSON', await server.report('acme/rocket', sha, '{', token)],
        [503, 'a repository that cannot be opened', await server.read('acme/broken', sha, token)],
        [404, 'an unknown path', await server.call('GET', '/api/v1/x', { headers: bad() })],
        [
          405,
          'a wrong method',
          await server.call('PUT', `/api/v1/repos/a/b/statuses/${sha}`, { headers: bad() }),
        ],
      ] as const
      for (const [status, what, answer] of rows) t.equal(answer.status, status, what)
      t.same(await query('select * from auth_failures'), [])
      t.equal(await ask(bad()), 401, 'the budget of one failure is untouched')
    })

    t.test('each address has its own budget', async (t) => {
      const { ask, token } = await setUp(t, database, { trustedProxies: [parseCidr('127.0.0.1')] })
      const from = (address: string) => ({ 'x-forwarded-for': address })
      t.equal(count(await fail(ask, LIMIT + 1, from('2001:db8:1:2::1')), 429), 1)
      t.equal(
        await ask({ ...bad(), ...from('2001:db8:1:2:ffff::9') }),
        429,
        'IPv6 addresses share the budget of their /64',
      )
      t.equal(await ask({ ...bad(), ...from('2001:db8:1:3::1') }), 401, 'another /64 has its own')
      t.equal(count(await fail(ask, LIMIT + 1, from('192.0.2.1')), 429), 1)
      t.equal(
        await ask({ ...bad(), ...from('::ffff:192.0.2.1') }),
        429,
        'an IPv4-mapped IPv6 address counts as IPv4',
      )
      t.equal(await ask({ ...bad(), ...from('192.0.2.2') }), 401)
      t.equal(await ask({ authorization: `Bearer ${token}`, ...from('192.0.2.3') }), 200)
      t.equal(await ask({ ...bad(), ...from('192.0.2.1, 127.0.0.1') }), 429, 'past trusted proxies')
    })

    t.test('X-Forwarded-For from an untrusted peer is ignored, with one warning', async (t) => {
      const log = new PassThrough({ encoding: 'utf8' })
      const { ask } = await setUp(t, database, { logger: pino({ level: 'warn' }, log) })
      for (let index = 0; index < LIMIT; index++)
        await ask({ ...bad(), 'x-forwarded-for': `192.0.2.${index}` })
      t.equal(await ask({ ...bad(), 'x-forwarded-for': '192.0.2.99' }), 429, 'one address, one budget')
      const lines = String(log.read()).trim().split('\n')
      t.equal(lines.filter((line) => line.includes('TRUSTED_PROXIES')).length, 1)
      t.equal(lines.filter((line) => line.includes('blocked')).length, 1, 'one block is logged once')
    })

    t.test('a trusted proxy may write ports; what is not an address is warned of once', async (t) => {
      const log = new PassThrough({ encoding: 'utf8' })
      const trustedProxies = [parseCidr('127.0.0.1'), parseCidr('10.0.0.0/8')]
      const { ask } = await setUp(t, database, { trustedProxies, logger: pino({ level: 'warn' }, log) })
      const from = (client: string) => ({ 'x-forwarded-for': client })
      for (let index = 0; index < LIMIT; index++)
        await ask({ ...bad(), ...from(`192.0.2.1:${4711 + index}`) })
      t.equal(await ask({ ...bad(), ...from('"192.0.2.1:80"') }), 429)
      t.equal(await ask({ ...bad(), ...from('192.0.2.2:80') }), 401, 'another client')
      t.equal(await ask({ ...bad(), ...from('[2001:db8::1]:443') }), 401)
      t.equal(await ask({ ...bad(), ...from('unknown') }), 401)
      t.notMatch(log.read(), 'X-Forwarded-For')
      for (const client of ['192.0.2.3:http, 10.0.0.7', '_hidden']) await ask(from(client))
      const lines = String(log.read()).trim().split('\n')
      const warnings = lines
        .filter((line) => line.includes('X-Forwarded-For'))
        .map((line) => JSON.parse(line))
      t.match(warnings, [{ peer: '10.0.0.7', entry: '192.0.2.3:http' }])
      t.equal(warnings.length, 1)
    })

    t.test('all processes share the budget, it survives a restart, and it can be lifted', async (t) => {
      const { server, path, ask, token } = await setUp(t, database, {
        trustedProxies: [parseCidr('127.0.0.1')],
      })
      t.equal(count(await fail(ask, LIMIT + 1), 429), 1)
      const other = await startAnother(t, server)
      const good = { headers: { authorization: `Bearer ${token}` } }
      t.equal((await fetch(other + path, good)).status, 429)

      const environment = {
        DATA_DIR: server.dataDir,
        DATABASE_URL: server.options.databaseUrl ?? '',
        AUTH_FAILURE_LIMIT: String(LIMIT),
      }
      const cli = (...args: string[]) => createProgram(environment).parseAsync(args, { from: 'user' })
      for (const address of ['192.0.2.7', '2001:db8::/64'])
        await t.rejects(cli('blocked', 'lift', address), { name: 'Refusal' })
      await cli('blocked', 'lift', '127.0.0.1')
      t.equal(await ask(good.headers), 200, 'from the next request on')
      t.equal((await fetch(other + path, good)).status, 200, 'in every process')

      const ipv6 = { 'x-forwarded-for': '2001:db8::1' }
      await fail(ask, LIMIT, ipv6)
      t.equal(await ask({ ...bad(), ...ipv6 }), 429)
      t.same(
        (await server.store.failures.list({ limit: LIMIT, window: 300 })).map(({ address }) => address),
        ['2001:db8::/64'],
      )
      await cli('blocked', 'lift', '2001:db8::/64')
      t.equal(await ask({ ...bad(), ...ipv6 }), 401, 'a network is lifted as "blocked list" names it')
      t.equal(await ask(bad()), 401)
    })

    t.test('there are at most 100,000 live rows; those that end soonest are removed', async (t) => {
      const { ask, query } = await setUp(t, database, { trustedProxies: [parseCidr('127.0.0.1')] })
      const now = Date.now()
      await query(
        `insert into auth_failures (address, failures, ends_at)
     with recursive n (i) as (values (1) union all select i + 1 from n where i < 100000)
     select 'a' || i, 1, ${now + 60_000} + i from n`,
      )
      await query(`insert into auth_failures (address, failures, ends_at) values ('expired', 9, ${now - 1})`)
      // A removal that exceeds the time limit of a statement, as on a busy machine, is tried again
      // at the next new address.
      const rows = async () => (await query('select address from auth_failures')).length
      const asked = []
      do {
        asked.push(`192.0.2.${asked.length}`)
        t.equal(await ask({ ...bad(), 'x-forwarded-for': asked.at(-1) ?? '' }), 401)
      } while ((await rows()) > 100_000 && asked.length < 40)
      t.ok((await rows()) <= 100_000, `after ${asked.length} new addresses`)
      const has = async (address: string) =>
        (await query(`select * from auth_failures where address = '${address}'`)).length
      t.equal(await has('expired'), 0, 'expired ones are removed')
      t.equal(await has('a1'), 0, 'the one that ends soonest')
      t.equal(await has('a100000'), 1, 'the one that ends last')
      for (const address of asked) t.equal(await has(address), 1, 'one just counted')
    })
  })
}

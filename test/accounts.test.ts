import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { resolve } from 'node:path'
import t, { type Test } from 'tap'
import { openStore } from '../src/store/store.ts'
import { basic, createCheckout, git, tryGit } from './git-http/client.ts'
import { asAdministrator } from './helpers/changes.ts'
import { runCli } from './helpers/cli.ts'
import { databases, type TestDatabase } from './helpers/databases.ts'
import { listEvents } from './helpers/events.ts'
import { startInstance } from './helpers/instance.ts'
import { openPageClient } from './helpers/page-client.ts'
import { minimalEnvironment } from './helpers/process.ts'

const FIRST = 'a first passphrase'
const SECOND = 'a second passphrase'
const LIMIT = 5
const ACCOUNT = '/settings/account'

/** Starts two processes on one database, and the administrator's command line beside them. */
async function setUp(t: Test, database: TestDatabase) {
  const options = await database.create(t)
  const { dataDir, databaseUrl } = options
  const environment = { DATA_DIR: dataDir, ...(databaseUrl && { DATABASE_URL: databaseUrl }) }
  const store = await openStore(options)
  t.teardown(() => store.close())
  const limits = { AUTH_FAILURE_LIMIT: String(LIMIT), LOG_LEVEL: 'info' }
  const [a, b] = await Promise.all([startInstance(t, options, limits), startInstance(t, options, limits)])
  const admin = async (...args: string[]) => {
    const { code, stdout, stderr } = await runCli(args, environment)
    t.equal(code, 0, `${args.join(' ')}: ${stderr}`)
    return { stdout: stdout.trim(), stderr: stderr.trim() }
  }
  /** Runs a command that reads a password from a pipe. Returns its standard error. */
  const adminWithInput = (input: string, ...args: string[]) => {
    const main = resolve(import.meta.dirname, '../src/cli/main.ts')
    const env = { ...minimalEnvironment(), ...environment }
    return execFileSync(process.execPath, [main, ...args], { input, env, stdio: ['pipe', 'pipe', 'pipe'] })
  }
  return { store, a, b, admin, adminWithInput }
}

for (const database of databases) {
  t.test(`a day of accounts, in two processes on ${database.name}`, async (t) => {
    const { store, a, b, admin, adminWithInput } = await setUp(t, database)
    const isSignedIn = async (client: ReturnType<typeof openPageClient>) =>
      (await client.get(ACCOUNT)).status === 200

    adminWithInput(`${FIRST}\n`, 'user', 'create', 'alice', '--password-stdin')
    await admin('user', 'create', 'bob')
    await admin('repo', 'create', 'alice/rocket', '--private')
    await admin('repo', 'access', 'alice/rocket', 'bob', 'write')
    await admin('repo', 'access', 'alice/rocket', 'bob', 'write')

    // The same browser at both processes, and a second one.
    const laptop = openPageClient(a.url)
    const laptopElsewhere = openPageClient(b.url)
    const phone = openPageClient(b.url)
    t.equal((await laptop.signIn('alice', FIRST)).status, 303)
    t.equal((await phone.signIn('alice', FIRST)).status, 303)
    const stolen = laptop.cookieHeader()

    const form = { name: 'CI of rocket', scope: 'repo', push: 'on', expiry: 'none' }
    const created = await laptop.submit('/settings/tokens', '/settings/tokens', form)
    const [token = ''] = /cst_\w+/.exec(created.body) ?? []
    const checkout = await createCheckout(t, `${b.url}/alice/rocket.git`)
    const credential = { authorization: basic('x', token) }
    await git(checkout, ['push', '--quiet', 'origin', 'HEAD:main'], credential)
    const sha = await git(checkout, ['rev-parse', 'HEAD'])

    for (let tries = 0; tries < LIMIT; tries++)
      t.equal((await openPageClient(a.url).signIn('alice', 'a wrong passphrase')).status, 401)
    t.equal((await openPageClient(b.url).signIn('alice', FIRST)).status, 429)
    await admin('blocked', 'lift', '127.0.0.1')

    await t.test('a new password ends other sessions at the next request, in both processes', async (t) => {
      const change = { current: FIRST, password: SECOND, again: SECOND }
      const wrong = await phone.submit(ACCOUNT, `${ACCOUNT}/password`, { ...change, current: SECOND })
      t.equal(wrong.status, 422)
      t.match(wrong.body, 'This is not your current password.')
      t.match(await store.failures.find('127.0.0.1'), { failures: 1 }, 'it counts')
      const done = await laptop.submit(ACCOUNT, `${ACCOUNT}/password`, change)
      t.equal(done.status, 200)
      t.match(done.body, /1 other session was ended.*1 token still works/s)
      t.equal(await isSignedIn(phone), false, 'in the other process')
      t.equal(await isSignedIn(laptop), true)
      for (const [name, value] of laptop.cookies) laptopElsewhere.cookies.set(name, value)
      t.equal(await isSignedIn(laptopElsewhere), true, 'with a new cookie, which works in both')
      for (const { url } of [a, b])
        t.equal((await openPageClient(url).get(ACCOUNT, { headers: { cookie: stolen } })).status, 303)
      t.equal((await a.read('alice/rocket', sha, token)).status, 200, 'the token still works')
    })

    await t.test('a user ends the sessions of other browsers', async (t) => {
      await phone.signIn('alice', SECOND)
      const page = await phone.get(ACCOUNT, { headers: { 'user-agent': 'Mozilla/5.0 Firefox/140.0' } })
      t.match(page.body, 'this browser')
      const [, path = ''] = /action="(\/settings\/account\/sessions\/\w{16}\/end)"/.exec(page.body) ?? []
      t.equal((await phone.submit(ACCOUNT, path)).status, 303)
      t.same([await isSignedIn(laptop), await isSignedIn(phone)], [false, true])
      await laptop.signIn('alice', SECOND)
      t.equal((await phone.submit(ACCOUNT, `${ACCOUNT}/sessions/end-others`)).status, 303)
      t.same([await isSignedIn(laptop), await isSignedIn(phone)], [false, true])
      await phone.submit('/', '/logout')
      t.equal(await isSignedIn(phone), false)
    })

    await t.test('a locked user does not exist, in both processes, until unlocked', async (t) => {
      await laptop.signIn('alice', SECOND)
      await admin('user', 'lock', 'alice')
      const locked = await admin('user', 'lock', 'ALICE')
      t.match(locked.stderr, 'locked already')
      t.match(await admin('user', 'list'), { stdout: /alice +\S+ +\d{4}-.*\nbob +\S+ +-/ })
      t.equal(await isSignedIn(laptop), false)
      await asAdministrator(store).failures.lift('127.0.0.1')
      let counted = 0
      for (const { read, report, url } of [a, b]) {
        const unknown = await read('alice/rocket', sha, `cst_${'0'.repeat(38)}`)
        const known = await read('alice/rocket', sha, token)
        t.same([known.status, known.body], [401, unknown.body], 'like an unknown token')
        counted += 2
        if (counted === 2) {
          t.equal((await report('alice/rocket', sha, { state: 'success' }, token)).status, 401)
          const push = await tryGit(
            checkout,
            ['push', '--quiet', `${url}/alice/rocket.git`, 'HEAD:other'],
            credential,
          )
          t.match(push.stderr, 'could not read Username', 'git asks for another credential')
          t.match(await store.failures.find('127.0.0.1'), { failures: 4 }, 'each is counted')
        }
        await asAdministrator(store).failures.lift('127.0.0.1')
      }
      const [right, wrong] = await Promise.all(
        [SECOND, FIRST].map((password) => openPageClient(b.url).signIn('alice', password)),
      )
      const withoutForm = (body = '') => body.replace(/name="csrf" value="[^"]+"/g, '')
      t.same([right?.status, withoutForm(right?.body)], [401, withoutForm(wrong?.body)], 'the same answer')
      t.match(await store.failures.find('127.0.0.1'), { failures: 2 }, 'both are counted')
      t.match(await admin('user', 'unlock', 'alice'), { stderr: '1 token can be used again.' })
      for (const { read } of [a, b]) t.equal((await read('alice/rocket', sha, token)).status, 200)
      t.equal(await isSignedIn(laptop), false, 'sessions are gone')
    })

    await laptop.signIn('alice', SECOND)
    const answer = adminWithInput(FIRST, 'user', 'password', 'alice', '--password-stdin')
    t.equal(answer.toString(), '')
    t.equal(await isSignedIn(laptop), false, 'the command ends all sessions')
    await admin('repo', 'visibility', 'alice/rocket', 'public')
    await admin('repo', 'visibility', 'alice/rocket', 'public')
    await admin('user', 'delete', 'alice', '--transfer-to', 'bob')
    t.equal((await b.read('bob/rocket', sha)).status, 200)
    await admin('repo', 'delete', 'bob/rocket')

    const events = await listEvents(store)
    const NONE = '0'.repeat(40)
    const session = { id: /^[0-9a-f]{16}$/, scopes: ['repo'], expires_at: null }
    t.match(
      events.map(({ actor, user, token_name, address, action, object, details }) => [
        token_name ? `${actor} ${user} ${token_name}` : `${actor} ${user}`,
        address,
        action,
        object,
        details,
      ]),
      [
        ['administrator alice', null, 'user.created', 'alice', { password: true }],
        ['administrator bob', null, 'user.created', 'bob', { password: false }],
        ['administrator null', null, 'repository.created', 'alice/rocket', { visibility: 'private' }],
        ['administrator bob', null, 'repository.access', 'alice/rocket', { user: 'bob', access: 'write' }],
        ['user alice', '127.0.0.1', 'sign-in', 'alice', {}],
        ['user alice', '127.0.0.1', 'sign-in', 'alice', {}],
        ['user alice', '127.0.0.1', 'token.created', 'CI of rocket', session],
        [
          'user alice CI of rocket',
          '127.0.0.1',
          'push',
          'alice/rocket',
          { updates: [{ ref: 'refs/heads/main', old: NONE, new: sha }] },
        ],
        [
          'anonymous alice',
          '127.0.0.1',
          'address.blocked',
          '127.0.0.1',
          { failures: LIMIT, after: 'sign-in' },
        ],
        ['administrator null', null, 'address.lifted', '127.0.0.1', {}],
        ['user alice', '127.0.0.1', 'password.set', 'alice', { sessions: 1, tokens: 1 }],
        ['user alice', '127.0.0.1', 'sign-in', 'alice', {}],
        ['user alice', '127.0.0.1', 'session.ended', 'alice', { sessions: 1 }],
        ['user alice', '127.0.0.1', 'sign-in', 'alice', {}],
        ['user alice', '127.0.0.1', 'session.ended', 'alice', { sessions: 1 }],
        ['user alice', '127.0.0.1', 'sign-out', 'alice', {}],
        ['user alice', '127.0.0.1', 'sign-in', 'alice', {}],
        ['administrator alice', null, 'user.locked', 'alice', { sessions: 1 }],
        ['administrator null', null, 'address.lifted', '127.0.0.1', {}],
        ['administrator null', null, 'address.lifted', '127.0.0.1', {}],
        ['administrator null', null, 'address.lifted', '127.0.0.1', {}],
        ['administrator alice', null, 'user.unlocked', 'alice', {}],
        ['user alice', '127.0.0.1', 'sign-in', 'alice', {}],
        ['administrator alice', null, 'password.set', 'alice', { sessions: 1, tokens: 1 }],
        ['administrator null', null, 'repository.visibility', 'alice/rocket', { visibility: 'public' }],
        ['administrator bob', null, 'repository.transferred', 'bob/rocket', { from: 'alice/rocket' }],
        ['administrator alice', null, 'token.revoked', /./, { id: /^[0-9a-f]{16}$/ }],
        [
          'administrator alice',
          null,
          'user.deleted',
          'alice',
          { tokens: 1, sessions: 0, transferred_to: 'bob' },
        ],
        ['administrator null', null, 'repository.deleted', 'bob/rocket', {}],
      ],
    )
    t.equal(events.length, 29)

    const everything = JSON.stringify([events, a.log, b.log])
    const [cookie = ''] = laptop.cookies.values()
    for (const secret of [token, FIRST, SECOND, cookie, createHash('sha256').update(token).digest('hex')])
      t.notOk(secret === '' || everything.includes(secret), 'no secret in an event or in the log')
    const logged = [...a.log, ...b.log].map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'audit')
    t.same(
      logged.map(({ event }) => event).sort((one, other) => one.id - other.id),
      events.filter(({ actor }) => actor !== 'administrator'),
      'the servers log their events',
    )
    const printed = JSON.parse((await admin('audit', 'list', '--json')).stdout)
    t.same(printed, events)
    const ofRepository = await admin('audit', 'list', '--repo', 'alice/rocket', '--since', '1h')
    t.match(ofRepository.stdout, /push {2}alice\/rocket {2}refs\/heads\/main:0{7}\.\.\w{7}\n/)
    t.equal(ofRepository.stdout.split('\n').length, 4)
    t.equal((await admin('audit', 'list', '--user', 'bob')).stdout.split('\n').length, 3)
  })
}

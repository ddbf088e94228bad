import { PassThrough, Readable } from 'node:stream'
import t, { type Test } from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { runCli } from '../helpers/cli.ts'
import { openTestStore, sqlite } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { BROWSER } from '../helpers/sessions.ts'

async function setUp(t: Test) {
  const { store, options } = await openTestStore(t, sqlite)
  const cli = (...args: string[]) => runCli(args, { DATA_DIR: options.dataDir })
  const list = async (...args: string[]) => JSON.parse((await cli(...args, '--json')).stdout)
  const create = (owner: string, name: string, visibility: 'public' | 'private' = 'private') =>
    asAdministrator(store).repositories.create({ owner, name, visibility, objectFormat: 'sha1' })
  return { store, cli, list, create }
}

t.test('repo access lists who has access and why', async (t) => {
  const { store, cli, list, create } = await setUp(t)
  await create('acme', 'rocket')
  t.same(await list('repo', 'access', 'acme/rocket'), [])
  await asAdministrator(store).users.create('Acme', { ownExisting: true })
  for (const [name, permission] of [
    ['zoe', 'read'],
    ['bob', 'write'],
    ['acme', 'read'],
  ] as const) {
    const { id } = (await store.users.find(name)) ?? (await asAdministrator(store).users.create(name))
    await asAdministrator(store).collaborators.set({ owner: 'acme', name: 'rocket' }, id, permission)
  }
  await asAdministrator(store).repositories.setVisibility({ owner: 'acme', name: 'rocket' }, 'public')
  await asAdministrator(store).users.setLocked('zoe', true)
  t.match(await list('repo', 'access', 'ACME/rocket'), [
    { user: 'Acme', access: 'admin', reason: 'owner', locked_at: null },
    { user: 'Acme', access: 'read', reason: 'granted', locked_at: null },
    { user: 'bob', access: 'write', reason: 'granted', locked_at: null },
    { user: 'zoe', access: 'read', reason: 'granted', locked_at: /^\d{4}-/ },
    { user: 'everyone', access: 'read', reason: 'public', locked_at: null },
  ])
  t.match(await cli('repo', 'access', 'acme/rocket', 'bob'), {
    code: 2,
    stderr: /read, write, admin or none/,
  })
  t.match(await cli('repo', 'access', 'acme/rocket', 'nobody', 'read'), {
    code: 1,
    stderr: /no user "nobody"/,
  })
  t.match(await cli('repo', 'access', 'acme/other'), { code: 1, stderr: /no repository acme\/other/ })
})

t.test('user delete --transfer-to moves all repositories, or none', async (t) => {
  const { store, cli, create } = await setUp(t)
  await asAdministrator(store).users.create('alice')
  await asAdministrator(store).users.create('Bob')
  for (const name of ['one', 'two', 'Three']) await create('alice', name)
  await create('bob', 'THREE')
  const names = async () => (await store.repositories.list()).map(({ owner, name }) => `${owner}/${name}`)
  const before = [await names(), (await listEvents(store)).length]
  const refused = async (message: RegExp, ...args: string[]) =>
    t.match(await cli('user', 'delete', 'alice', ...args), { code: 1, stderr: message })
  await refused(/owns repositories.*--transfer-to/)
  await refused(
    /"Bob" already owns bob\/THREE; delete those first. Nothing was changed/,
    '--transfer-to',
    'bob',
  )
  await refused(/the user to be deleted; its repositories need another owner/, '--transfer-to', 'ALICE')
  await refused(/no user or group "carol"/, '--transfer-to', 'carol')
  t.same([await names(), (await listEvents(store)).length], before, 'nothing was changed')
  await asAdministrator(store).repositories.delete({ owner: 'bob', name: 'three' })
  const { id } = await store.repositories.get('alice', 'one')
  t.match(await cli('user', 'delete', 'alice', '--transfer-to', 'bob'), {
    code: 0,
    stderr: /now owns 3 more repositories/,
  })
  t.same(await names(), ['Bob/one', 'Bob/Three', 'Bob/two'])
  t.equal((await store.repositories.get('bob', 'one')).id, id, 'the files stay where they are')
  t.equal(await store.users.find('alice'), undefined)
})

t.test('user sessions lists sessions, without control characters, and ends them', async (t) => {
  const { store, cli, list } = await setUp(t)
  const alice = await asAdministrator(store).users.create('alice', { passwordHash: 'hash' })
  await store.sessions.create('a'.repeat(64), alice, { ...BROWSER, userAgent: 'x\x1b[31m\u202e\x9b' })
  const { stdout } = await cli('user', 'sessions', 'alice')
  t.match(stdout, 'x\ufffd[31m\ufffd\ufffd')
  t.notMatch(
    (await cli('user', 'sessions', 'alice', '--json')).stdout.replaceAll('\n', ''),
    /[\p{Cc}\u202e]/u,
  )
  t.match(await list('user', 'sessions', 'alice'), [
    { id: 'a'.repeat(16), address: BROWSER.address, user_agent: 'x\x1b[31m\u202e\x9b' },
  ])
  t.match(await cli('user', 'sessions', 'alice', '--end'), { code: 0, stderr: /^Ended 1 session\.\n$/ })
  t.same(await list('user', 'sessions', 'alice'), [])
})

t.test('user link, user unlink, and what the lists say of it', async (t) => {
  const { store, options } = await openTestStore(t, sqlite)
  const environment = { DATA_DIR: options.dataDir }
  const withProvider = {
    ...environment,
    PUBLIC_URL: 'https://status.example.org',
    OIDC_ISSUER: 'https://id.example.org',
    OIDC_CLIENT_ID: 'commit-status',
  }
  const cli = (...args: string[]) => runCli(args, withProvider)
  const alice = await asAdministrator(store).users.create('alice', { passwordHash: 'hash' })
  await asAdministrator(store).users.create('bob')
  const token = { userId: alice.id, name: 'CI', prefix: '', hash: 'hash', scopes: [], expiresAt: null }
  await asAdministrator(store).tokens.create(token)
  await store.sessions.create('a'.repeat(64), alice, BROWSER)
  const without = async (...args: string[]) => (await runCli([...args, '--json'], environment)).stdout
  const before = [await without('user', 'list'), await without('token', 'list', 'alice')]
  t.notMatch(before.join(''), /works_until|"issuer": "/, 'without a provider nothing changes')

  t.match(await runCli(['user', 'link', 'alice', '--subject', 'a'], environment), {
    code: 1,
    stderr: /OIDC_ISSUER is not set/,
  })
  t.match(await cli('user', 'link', 'alice'), { code: 2 })
  t.match(await cli('user', 'link', 'carol', '--subject', 'a'), { code: 1, stderr: /no user "carol"/ })
  t.match(await cli('user', 'link', 'ALICE', '--subject', 'a'), { code: 0, stderr: 'Ended 1 session.\n' })
  t.match(await cli('user', 'link', 'bob', '--subject', 'a'), {
    code: 1,
    stderr: /the account is linked to the user "alice"; unlink that one first/,
  })
  t.match(await cli('user', 'link', 'alice', '--subject', 'b'), {
    code: 1,
    stderr: /"alice" is linked already; unlink it first/,
  })
  t.match(JSON.parse((await cli('user', 'list', '--json')).stdout), [
    { name: 'alice', issuer: 'https://id.example.org/', subject: 'a' },
    { name: 'bob', issuer: null, subject: null },
  ])

  const tokens = await cli('token', 'list', 'alice', '--json')
  t.same(await cli('token', 'list', '--user', 'alice', '--json'), tokens)
  const weeks = await runCli(['audit', 'list', '--since', '2w'], withProvider)
  t.match(weeks, { code: 2, stderr: /--since: "2w" is not a duration \(expected 14d\)/ })
  const until = Date.now() + 30 * 86_400_000
  const [listed] = JSON.parse(tokens.stdout)
  t.ok(Math.abs(Date.parse(listed.works_until) - until) < 60_000, 'a link counts as a sign-in')
  t.equal(tokens.stderr, '')
  const soon = await runCli(['token', 'list', 'alice'], { ...withProvider, OIDC_SIGN_IN_EVERY: '6d' })
  t.match(soon, {
    stdout: /WORKS_UNTIL/,
    stderr: /^warning: the tokens of alice .* unless alice signs in\.\n$/,
  })
  const never = await runCli(['token', 'list', 'alice'], { ...withProvider, OIDC_SIGN_IN_EVERY: '0' })
  t.match(never, { stderr: '' })
  t.notMatch(never.stdout, /WORKS_UNTIL/)

  t.match(await cli('user', 'unlink', 'alice'), { code: 0, stderr: 'Ended 0 sessions.\n' })
  t.match(await cli('user', 'unlink', 'alice'), { code: 1, stderr: /"alice" is not linked/ })
  t.same([await without('user', 'list'), await without('token', 'list', 'alice')], before)
  t.match(
    (await listEvents(store)).filter(({ action }) => /link/.test(action)),
    [
      {
        actor: 'administrator',
        action: 'user.linked',
        details: { issuer: 'https://id.example.org/', sessions: 1 },
      },
      { actor: 'administrator', action: 'user.unlinked', details: { sessions: 0 } },
    ],
  )
})

t.test('user password asks at a terminal, and reads a pipe only with --password-stdin', async (t) => {
  const { store, cli } = await setUp(t)
  const alice = await asAdministrator(store).users.create('alice')
  const token = { userId: alice.id, name: 'CI', prefix: '', hash: 'hash', scopes: [], expiresAt: null }
  await asAdministrator(store).tokens.create(token)
  const terminal = Object.getOwnPropertyDescriptor(process, 'stdin')
  if (!terminal) throw new Error('process has no stdin')
  t.teardown(() => Object.defineProperty(process, 'stdin', terminal))
  const setInput = (stdin: Readable, isTTY: boolean) =>
    Object.defineProperty(process, 'stdin', { configurable: true, value: Object.assign(stdin, { isTTY }) })
  setInput(Readable.from(['warm kettle\n']), false)
  t.match(await cli('user', 'password', 'alice'), { code: 2, stderr: /with --password-stdin/ })
  t.match(await cli('user', 'password', 'alice', '--password-stdin'), {
    code: 0,
    stderr: 'Ended 0 sessions. 1 token of alice still works.\n',
  })
  await asAdministrator(store).users.setLocked('alice', true)
  for (const option of [[], ['--password-stdin']]) {
    const keyboard = new PassThrough()
    setInput(keyboard, true)
    // A line that comes before its question is lost.
    const typing = setInterval(() => keyboard.write('cold kettle\n'), 20)
    const outcome = await cli('user', 'password', 'alice', ...option)
    clearInterval(typing)
    t.match(outcome, {
      code: 0,
      stderr:
        /^Password: \n.*again: \nEnded 0 sessions. 1 token of alice works again after "user unlock".\n$/,
    })
  }
})

t.test('audit prune removes old events only, and audit list checks its options', async (t) => {
  const { store, cli } = await setUp(t)
  const { restore } = t.capture(Date, 'now', () => 1_700_000_000_000)
  await asAdministrator(store).users.create('old')
  restore()
  await asAdministrator(store).users.create('new')
  await asAdministrator(store).tokens.create({
    userId: 2,
    name: '\x1b]0;x\x07',
    prefix: '',
    hash: 'hash',
    scopes: [],
    expiresAt: null,
  })
  const { stdout } = await cli('audit', 'list')
  t.notMatch(stdout.replaceAll('\n', ''), /\p{Cc}/u)
  t.match(stdout, / {2}user\.created {2}new {2}password=false\n/)
  t.match(stdout, / {2}token\.created {2}.* {2}user=new id=/, 'whose token it is')
  await asAdministrator(store).repositories.create({
    owner: 'acme',
    name: 'kit',
    visibility: 'public',
    objectFormat: 'sha1',
  })
  await asAdministrator(store).collaborators.set({ owner: 'acme', name: 'kit' }, 2, 'read')
  t.match(
    (await cli('audit', 'list')).stdout,
    / {2}repository\.access {2}acme\/kit {2}user=new access=read from=none\n/,
  )
  t.match(await cli('audit', 'prune', '--older-than', '400d'), { code: 0, stderr: 'Removed 1 event.\n' })
  t.same(
    (await listEvents(store)).map(({ action, object }) => `${action} ${object}`),
    [
      'user.created new',
      'token.created \x1b]0;x\x07',
      'group.created acme',
      'repository.created acme/kit',
      'repository.access acme/kit',
      'audit.pruned audit log',
    ],
  )
  t.match(await cli('audit', 'list', '--since', 'yesterday'), {
    code: 2,
    stderr: /--since: "yesterday" is not a duration/,
  })
  t.match(await cli('audit', 'list', '--repo', 'rocket'), { code: 2, stderr: /expected OWNER\/NAME/ })
  t.match(await cli('audit', 'list', '--user', 'nobody', '--json'), { code: 0, stdout: '[]\n' })
})

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import { sql } from 'kysely'
import t, { type Test } from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { runCli } from '../helpers/cli.ts'
import { databases, openTestStore, sqlite, type TestDatabase, temporaryFolder } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'

const DAY = 86_400_000

async function setUp(t: Test, database: TestDatabase = sqlite) {
  const { store, options } = await openTestStore(t, database)
  const settings = { DATA_DIR: options.dataDir, DATABASE_URL: options.databaseUrl ?? '' }
  const cli = (args: string[], more: NodeJS.ProcessEnv = {}) => runCli(args, { ...settings, ...more })
  const list = async (...args: string[]) => JSON.parse((await cli([...args, '--json'])).stdout)
  /** Runs a command with lines in the place of a name. */
  const from = (args: string[], lines: readonly string[], more?: NodeJS.ProcessEnv) => {
    const file = join(temporaryFolder(t), 'lines')
    writeFileSync(file, lines.join('\n'))
    return cli([...args, '--from', file], more)
  }
  return { store, options, cli, list, from }
}

for (const database of databases) {
  t.test(`many users and repositories are created at once, or none: ${database.name}`, async (t) => {
    const { store, options, cli, list, from } = await setUp(t, database)
    const names = Array.from({ length: 300 }, (_, index) => `user-${index}`)
    const lines = names.map((name) => JSON.stringify({ name }))
    t.match(await from(['user', 'create'], [...lines, '', '']), { code: 0, stderr: 'Created 300 users.\n' })
    t.same((await store.users.list()).map(({ name }) => name).sort(), names.sort())
    const locked =
      '{"name":"gone","created_at":"2026-01-01T00:00:00Z","locked_at":"2026-01-02T00:00:00Z","issuer":null,"subject":null}'
    t.match(await from(['user', 'create'], [locked]), { code: 0 })
    t.match(
      await list('user', 'list'),
      [{ name: 'gone', locked_at: /^\d/, issuer: null, subject: null }],
      'as `user list --json` prints it',
    )

    const account = { issuer: 'https://id.example.org/', subject: '248' }
    const linked = JSON.stringify({ name: 'linked', ...account })
    t.match(await from(['user', 'create'], [linked]), { code: 0 })
    t.match(
      (await list('user', 'list')).find(({ name }: { name: string }) => name === 'linked'),
      account,
    )
    t.match(await from(['user', 'create'], [linked.replace('linked', 'twin')]), {
      code: 3,
      stderr: /the account/,
    })

    const users = (await store.users.list()).length
    const events = (await listEvents(store)).length
    const refused = async (lines: string[], code: number, stderr: RegExp) =>
      t.match(await from(['user', 'create'], lines), { code, stdout: '', stderr }, lines.join())
    await refused(['{"name":"new"}', '{"name":"USER-7"}'], 3, /already a user "USER-7"/)
    await refused(['{"name":"new"}', '{"name":"login"}'], 1, /"login" is not a valid user name/)
    await refused(['{"name":"new"}', '{"name":'], 2, /line 2 of --from: not JSON/)
    await refused(['{"name":"new"}', '', '[]'], 2, /line 3 of --from: not a JSON object/)
    await refused(
      ['{"name":"new","password":"x"}'],
      2,
      /unknown field "password" \(expected name, created_at/,
    )
    await refused(['{"name":"new","subject":"x"}'], 2, /new: "issuer" and "subject" belong together/)
    await refused(['{"name":7}'], 2, /"name" is not a text/)
    await refused(['{"name":null}'], 2, /"name" is missing/)
    await refused(Array(2_001).fill('{"name":"new"}'), 2, /has 2001 objects; at most 2,000/)
    t.same([(await store.users.list()).length, (await listEvents(store)).length], [users, events])
    t.match(await cli(['user', 'create', 'x', '--from', 'y']), { code: 2, stderr: /not both/ })
    t.match(await cli(['user', 'create']), { code: 2, stderr: /missing name/ })
    t.match(await cli(['user', 'create', 'user-1']), { code: 3, stderr: /already a user/ })

    const folder = join(options.dataDir, 'repositories')
    const create = (...lines: string[]) => from(['repo', 'create'], lines, { DEFAULT_VISIBILITY: 'private' })
    const created = await create(
      '{"name":"user-1/a"}',
      '{"name":"nobody/b","visibility":"public","object_format":"sha256","path":"/elsewhere"}',
    )
    t.match(created, {
      code: 0,
      stderr:
        /user-1\/a is private: its owner and users with access can see it\.\nnobody\/b is public: everyone can see it\.\nwarning: nobody is a group without members\./,
    })
    t.same(created.stdout, `${['1.git', '2.git'].map((name) => join(folder, name)).join('\n')}\n`)
    t.match(await list('repo', 'list'), [
      { name: 'nobody/b', visibility: 'public', object_format: 'sha256', path: join(folder, '2.git') },
      { name: 'user-1/a', visibility: 'private', object_format: 'sha1' },
    ])
    t.match(await create('{"name":"user-1/c"}', '{"name":"user-1/A"}'), { code: 3 })
    t.match(await create('{"name":"user-1/c","visibility":"hidden"}'), { code: 2, stderr: /not public or/ })
    t.match(await create('{"name":"user-1/c"}', '{"name":"user-1"}'), { code: 2, stderr: /OWNER\/NAME/ })
    t.same(readdirSync(folder).sort(), ['1.git', '2.git'], 'nothing is left of what was refused')
    t.match(await cli(['repo', 'create', 'user-1/a']), { code: 3 })
    t.match(await cli(['repo', 'create', 'user-1/d', '--public', '--private']), { code: 2 })
    t.match(await cli(['repo', 'create', 'user-1/d']), { code: 0, stderr: /^user-1\/d is public/ })
    t.equal(readdirSync(folder).length, 3)
  })

  t.test(`who can reach what: ${database.name}`, async (t) => {
    const { store, cli, list } = await setUp(t, database)
    const [alice, bob] = [
      await asAdministrator(store).users.create('alice'),
      await asAdministrator(store).users.create('bob'),
    ]
    for (const [owner, name, visibility] of [
      ['alice', 'open', 'public'],
      ['alice', 'secret', 'private'],
      ['alice', 'shared', 'private'],
      ['bob', 'own', 'private'],
    ] as const)
      await asAdministrator(store).repositories.create({ owner, name, visibility, objectFormat: 'sha1' })
    await asAdministrator(store).collaborators.set({ owner: 'alice', name: 'shared' }, bob.id, 'write')
    t.same(await list('repo', 'access', '--user', 'BOB'), [
      { repository: 'alice/open', access: 'read', reason: 'public' },
      { repository: 'alice/shared', access: 'write', reason: 'granted' },
      { repository: 'bob/own', access: 'admin', reason: 'owner' },
    ])
    await asAdministrator(store).users.setLocked('bob', true)
    t.match(await cli(['repo', 'access', '--user', 'bob']), { stderr: /bob is locked/ })
    t.match(await cli(['repo', 'access', '--user', 'carol']), { code: 1, stderr: /no user "carol"/ })
    const usage = /either a repository or an option/
    t.match(await cli(['repo', 'access', 'bob/own', '--user', 'bob']), { code: 2, stderr: usage })

    const issue = async (userId: number, name: string) => {
      const request = { userId, name, scopes: ['repo'], expiresAt: null }
      return (await asAdministrator(store).tokens.create({ ...request, prefix: '', hash: name })).id
    }
    const ids = [await issue(alice.id, 'used'), await issue(bob.id, 'new'), await issue(alice.id, 'old')]
    const ago = (days: number) => Math.floor((Date.now() - days * DAY) / 1000)
    const stored = store.engine.kysely.updateTable('tokens')
    await stored
      .set({ created_at: ago(100) })
      .where('name', '<>', 'new')
      .execute()
    await store.tokens.touch(new Map([[ids[0] ?? '', ago(89)]]))
    const names = async (...args: string[]) =>
      (await list('token', 'list', ...args)).map(
        ({ user, name }: Record<string, string>) => `${user} ${name}`,
      )
    t.same((await names()).sort(), ['alice old', 'alice used', 'bob new'])
    t.same((await names('alice')).sort(), ['alice old', 'alice used'])
    t.same(await names('--unused', '90d'), ['alice old'], 'never, and created before')
    t.same((await names('--unused', '89d')).sort(), ['alice old', 'alice used'])
    t.match(await cli(['token', 'list', '--unused', '101d']), { stderr: 'No token is unused for so long.\n' })
    t.match(await cli(['token', 'list', '--unused', 'long']), { code: 2 })
    t.match(await cli(['token', 'revoke', '--user', 'alice']), { code: 0, stderr: 'Revoked 2 tokens.\n' })
    t.same(await names(), ['bob new'])
    const revoked = (await listEvents(store)).filter(({ action }) => action === 'token.revoked')
    t.same(revoked.map(({ object }) => object).sort(), ['old', 'used'])
    t.match(await cli(['token', 'revoke']), { code: 2, stderr: /pass a token, or --user/ })
  })
}

t.test('a token lives for TOKEN_MAX_LIFETIME at most, and can be rotated', async (t) => {
  const { store, cli, list } = await setUp(t)
  await asAdministrator(store).users.create('alice')
  const limit = { TOKEN_MAX_LIFETIME: '90d' }
  const create = (...args: string[]) => cli(['token', 'create', 'alice', ...args], limit)
  const day = (days: number) => new Date(Date.now() + days * DAY).toISOString().slice(0, 10)
  t.match(await cli(['token', 'create', 'alice', '--name', 'free']), { code: 0, stderr: '' })
  t.match(await cli(['token', 'create', 'alice', '--name', 'long', '--expires', '200d']), { code: 0 })
  t.match(await create('--name', 'bounded'), {
    code: 0,
    stderr: new RegExp(`expires at ${day(90)}T.*latest`),
  })
  t.match(await create('--name', 'short', '--expires', '90d'), { code: 0, stderr: '' })
  t.match(await create('--expires', '91d'), { code: 1, stdout: '', stderr: new RegExp(`at ${day(90)}T`) })
  const tokens = await list('token', 'list')
  const idOf = (name: string) => tokens.find((token: { name: string }) => token.name === name).id
  t.match(await cli(['check'], limit), {
    code: 0,
    stderr: new RegExp(`^note: the token ${idOf('free')} "free" of alice lives longer`, 'm'),
  })

  const rotate = (id: string, ...args: string[]) => cli(['token', 'rotate', id, ...args], limit)
  for (let count = 0; count < 2; count++) {
    const rotated = await rotate(idOf('short'), '--overlap', '2h')
    t.match(
      rotated,
      { code: 0, stdout: /^cst_/, stderr: new RegExp(`secret expires at ${day(90)}T`) },
      'also again',
    )
  }
  for (const name of ['free', 'long'])
    t.match(await rotate(idOf(name)), { stderr: new RegExp(`at ${day(90)}T`) }, name)
  t.match(await rotate('none'), { code: 1, stderr: /no token none/ })
  t.match(await rotate(idOf('free'), '--overlap', '0'), { code: 2 })
  const replaced = (await list('token', 'list')).filter(
    ({ name }: { name: string }) => name === 'short (replaced)',
  )
  for (const { expires_at } of replaced)
    t.equal(Math.round((Date.parse(expires_at) - Date.now()) / 60_000), 120, 'the old secret')
  t.equal(replaced.length, 2)
  const events = (await listEvents(store)).filter(({ action }) => action === 'token.rotated')
  t.match(events[0], {
    object: 'short',
    details: { id: idOf('short'), expires_at: /^\d/, replaced: /^[\da-f]{16}$/ },
  })
  await store.engine.kysely
    .updateTable('tokens')
    .set({ expires_at: Date.now() - 1 })
    .execute()
  t.match(await rotate(idOf('short')), { code: 1, stderr: /has expired/ })
})

t.test('a long list is read only as fast as it is taken', { skip: !existsSync('/proc') }, async (t) => {
  const { store, options, cli } = await setUp(t)
  await cli(['user', 'create', 'alice'])
  const events = 20_000
  // 160 MB, of which a pipe takes some hundred kilobytes.
  await sql`
    with recursive numbers(i) as (select 1 union all select i + 1 from numbers where i < ${events})
    insert into audit_events (time, actor, action, object, details)
    select i, 'administrator', 'user.locked', 'alice', '{"note":"' || hex(zeroblob(4000)) || '"}' from numbers
  `.execute(store.engine.kysely)
  const start = (...args: string[]) => {
    const main = resolve(import.meta.dirname, '../../src/cli/main.ts')
    const child = spawn(process.execPath, ['--max-semi-space-size=2', main, ...args], {
      env: { PATH: process.env.PATH, DATA_DIR: options.dataDir },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    return child
  }
  /** Kilobytes that a process has had in memory at most. */
  const peakOf = ({ pid }: { pid?: number | undefined }) =>
    Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
  const other = start('audit', 'list', '--follow', '--user', 'alice')
  await once(other.stdout, 'readable')
  const least = peakOf(other)
  const child = start('audit', 'list', '--json')
  await once(child.stdout, 'readable')
  const statistics = () => readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(' ').slice(13, 15).join()
  // It waits for its reader once its time of the processor stands still.
  for (let before = ''; before !== statistics(); ) {
    before = statistics()
    await setTimeout(1_000)
  }
  const peak = peakOf(child)
  t.ok(peak < least + 30_000, `${peak} kB, of which any command takes ${least} kB`)
  t.equal(JSON.parse(await text(child.stdout)).length, events + 1)
})

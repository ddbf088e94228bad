import { Readable } from 'node:stream'
import t from 'tap'
import { createToken, hashToken, tokenPrefix } from '../../src/auth/token.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { runCli } from '../helpers/cli.ts'
import { databases, openTestStore } from '../helpers/databases.ts'

for (const database of databases) {
  t.test(`${database.name}: a token is revoked by what is known of it`, async (t) => {
    const { store, options } = await openTestStore(t, database)
    const settings = { DATA_DIR: options.dataDir, DATABASE_URL: options.databaseUrl ?? '' }
    const cli = (args: string[]) => runCli(args, settings)
    const list = async (...args: string[]): Promise<Record<string, string>[]> =>
      JSON.parse((await cli([...args, '--json'])).stdout)
    const alice = await asAdministrator(store).users.create('alice')
    const bob = await asAdministrator(store).users.create('bob')
    const issue = async ({ id: userId }: { id: number }, name: string, secret = createToken()) => {
      const token = { userId, name, scopes: ['repo'], expiresAt: null }
      const stored = { ...token, prefix: tokenPrefix(secret), hash: hashToken(secret) }
      return { secret, id: (await asAdministrator(store).tokens.create(stored)).id }
    }
    const ci = await issue(alice, 'CI')
    const [one, other] = [await issue(alice, 'twice'), await issue(alice, 'twice')]
    await issue(bob, 'CI')
    const left = async () => (await list('token', 'list')).map(({ user, name }) => `${user} ${name}`).sort()
    const all = ['alice CI', 'alice twice', 'alice twice', 'bob CI']
    const terminal = Object.getOwnPropertyDescriptor(process, 'stdin')
    if (!terminal) throw new Error('process has no stdin')
    t.teardown(() => Object.defineProperty(process, 'stdin', terminal))
    const revoke = (args: string[], input = '') => {
      Object.defineProperty(process, 'stdin', {
        configurable: true,
        value: Readable.from([Buffer.from(input)]),
      })
      return cli(['token', 'revoke', ...args])
    }

    const refused: [args: string[], code: number, stderr: RegExp, input?: string][] = [
      [['CI'], 1, /no token CI; to name one by its name, pass --user too/],
      [['nothing', '--user', 'alice'], 1, /no token nothing of alice\n/],
      [['twice', '--user', 'alice'], 1, /2 tokens match, and none was revoked; pass the id of one/],
      [['cst_'], 1, /4 tokens match/],
      [[''], 1, /no token /],
      [[ci.secret], 2, /pass - and write it to standard input/],
      [[ci.secret.slice(0, 12)], 2, /pass - and write it/],
      [['-'], 1, /no whole token/, 'nothing'],
      [['-'], 1, /no whole token .*unchanged/, `${ci.secret.slice(0, -1)}${ci.secret.endsWith('0') ? 1 : 0}`],
      [['-'], 1, /revoked or rotated, or is of another server/, createToken()],
      [['-', '--user', 'bob'], 2, /leave --user out/, ci.secret],
      [[`Bearer ${ci.secret}`, '--user', 'alice'], 2, /pass - and write it/],
      [['-'], 1, /2 tokens match/, `${one.secret}\n${other.secret}\n`],
    ]
    for (const [args, code, stderr, input] of refused) {
      const result = await revoke(args, input)
      t.match(result, { code, stderr })
      t.notMatch(result.stdout + result.stderr, ci.secret.slice(0, 12), 'no more of it than lists show')
    }
    t.match(
      (await revoke(['twice', '--user', 'alice'])).stdout,
      /^USER +ID +NAME +PREFIX +CREATED_AT\n(alice .*\n){2}$/,
    )
    t.same(await left(), all)

    const done = (token: string) => ({
      code: 0,
      stderr: new RegExp(`^Revoked the token \\w+ "${token}\\.\n$`),
    })
    const log = `cst_TOKEN is not set\nfatal: Authorization: Bearer ${ci.secret}\n`
    t.match(await revoke(['-'], log), done('CI" of alice'))
    t.match(await revoke(['CI', '--user', 'Bob']), done('CI" of bob'))
    const [first] = await list('token', 'list')
    t.match(await revoke([first?.prefix ?? '']), done('twice" of alice'))
    t.same(await left(), ['alice twice'])

    const events = async (token: string, ...args: string[]) =>
      (await list('audit', 'list', '--token', token, ...args)).map(({ action }) => action)
    t.same(await events(ci.id), ['token.created', 'token.revoked'])
    t.same(await events('CI', '--user', 'bob'), ['token.created', 'token.revoked'])
    t.same((await events('CI')).length, 4)
    t.same(await events('%'), [])
  })
  t.test(`${database.name}: old secrets of a revoked token that still work are named`, async (t) => {
    const { store, options } = await openTestStore(t, database)
    const settings = { DATA_DIR: options.dataDir, DATABASE_URL: options.databaseUrl ?? '' }
    const cli = (...args: string[]) => runCli(['token', ...args], settings)
    await asAdministrator(store).users.create('alice')
    const list = () => store.tokens.list()
    for (const name of ['CI', 'other']) await cli('create', 'alice', '--name', name)
    for (const { id, name } of await list()) {
      if (name === 'CI') await cli('rotate', id)
      await cli('rotate', id, '--overlap', '1h')
    }
    const [ended] = (await list()).filter(({ name }) => name === 'CI (replaced)')
    await store.engine.kysely
      .updateTable('tokens')
      .set({ expires_at: 1 })
      .where('id', '=', ended?.id ?? '')
      .execute()
    const old = (await list()).find(({ name, id }) => name === 'CI (replaced)' && id !== ended?.id)
    const until = new Date(old?.expiresAt ?? 0).toISOString()
    t.match(await cli('revoke', 'CI', '--user', 'alice'), {
      code: 0,
      stderr: new RegExp(
        `^Revoked the token \\w+ "CI" of alice\\.\nwarning: the old secret ${old?.id} "CI \\(replaced\\)" still works until ${until}, unless you revoke it too\n$`,
      ),
    })
    t.match(await cli('revoke', old?.id ?? ''), { code: 0, stderr: /^Revoked the token .*\.\n$/ })
  })
}

import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import t, { type Test } from 'tap'
import { runCli } from '../helpers/cli.ts'
import { createCommits, git } from '../helpers/git.ts'
import { startProcess } from '../helpers/process.ts'
import { startServer } from '../helpers/server.ts'

/** A running server, and its administrator's command line beside it. */
async function setUp(t: Test) {
  const server = await startServer(t)
  const cli = (...args: string[]) => runCli(args, { DATA_DIR: server.dataDir })
  const done = async (...args: string[]) => {
    const outcome = await cli(...args)
    t.equal(outcome.code, 0, `${args.join(' ')}: ${outcome.stderr}`)
    return outcome.stdout.trim()
  }
  const refused = async (code: 1 | 2 | 3, message: RegExp, ...args: string[]) => {
    const outcome = await cli(...args)
    t.equal(outcome.code, code, args.join(' '))
    t.equal(outcome.stdout, '', 'nothing for a script to read')
    t.match(outcome.stderr, message, args.join(' '))
  }
  const list = async (...args: string[]) => JSON.parse(await done(...args, '--json'))
  return { server, cli, done, refused, list }
}

t.test('users', async (t) => {
  const { cli, done, refused, list } = await setUp(t)
  const none = await cli('user', 'list')
  t.match(none, { code: 0, stdout: '', stderr: /no users/ }, 'an empty list says so on standard error')
  t.same(await list('user', 'list'), [])
  t.equal(await done('user', 'create', 'Ada'), '', 'a command without a result prints nothing')
  await done('user', 'create', 'bob')
  const users = await list('user', 'list')
  t.same(
    users.map(({ name }: { name: string }) => name),
    ['Ada', 'bob'],
    'as created',
  )
  t.same(Object.keys(users[0]), ['name', 'created_at', 'locked_at', 'issuer', 'subject'])
  t.match(await done('user', 'list'), /^NAME +CREATED_AT +LOCKED_AT\nAda +\d{4}-/, 'columns for people')
  await refused(3, /already a user "ADA"/, 'user', 'create', 'ADA')
  await done('user', 'delete', 'ADA')
  await refused(1, /no user "Ada"/, 'user', 'delete', 'Ada')
})

t.test('names', async (t) => {
  const { done, refused } = await setUp(t)
  const reserved =
    'api assets docs healthz login logout metrics openapi.json openapi.yaml readyz settings static favicon.ico robots.txt .well-known'
  const wrong = [
    '',
    '.',
    '..',
    'a b',
    'a/b',
    'é',
    'a.git',
    'a.GIT',
    'a.lock',
    'x'.repeat(101),
    'a\n',
    'a%',
    '~',
  ]
  for (const name of [...reserved.split(' '), 'LOGIN', ...wrong]) {
    await refused(
      1,
      /is not a valid user name: a name has 1 to 100 ASCII letters.*reserved/,
      'user',
      'create',
      '--',
      name,
    )
    if (!name.includes('/') && name !== '') {
      await refused(1, /is not a valid owner name/, 'repo', 'create', '--', `${name}/x`)
    }
  }
  for (const name of wrong.filter((name) => name !== '' && !name.includes('/'))) {
    await refused(1, /is not a valid repository name/, 'repo', 'create', `acme/${name}`)
  }
  for (const name of ['a', '-', '_', '.a', 'a.', 'git', 'a.gitx', 'X'.repeat(100), '0-_.']) {
    await done('user', 'create', '--', name)
  }
  await done('repo', 'create', 'acme/login')
  await refused(3, /already a repository/, 'repo', 'create', 'ACME/Login')
})

t.test('repositories', async (t) => {
  const { server, cli, done, refused, list } = await setUp(t)
  const path = await done('repo', 'create', 'acme/Rocket', '--private')
  t.equal(git(path, 'symbolic-ref', 'HEAD'), 'refs/heads/main')
  t.equal(git(path, 'rev-parse', '--is-bare-repository'), 'true')
  const long = await done('repo', 'create', 'acme/long', '--object-format', 'sha256')
  t.equal(git(long, 'rev-parse', '--show-object-format'), 'sha256')
  t.same(await list('repo', 'list'), [
    { name: 'acme/long', visibility: 'public', object_format: 'sha256', path: long },
    { name: 'acme/Rocket', visibility: 'private', object_format: 'sha1', path },
  ])

  const [sha = ''] = createCommits(path, 1)
  const status = async (token?: string) => (await server.read('acme/rocket', sha, token)).status
  t.equal(await status(), 401)
  await done('repo', 'visibility', 'ACME/rocket', 'public')
  t.equal(await status(), 200, 'at the next request')
  await done('repo', 'visibility', 'acme/rocket', 'private')
  t.equal(await status(), 401)

  await done('user', 'create', 'ada')
  const token = await done('token', 'create', 'ada')
  const write = async () => (await server.report('acme/rocket', sha, { state: 'success' }, token)).status
  for (const [permission, reading, writing] of [
    ['read', 200, 403],
    ['write', 200, 201],
    ['read', 200, 403],
    ['none', 404, 404],
    ['none', 404, 404],
  ] as const) {
    await done('repo', 'access', 'acme/rocket', 'Ada', permission)
    t.same([await status(token), await write()], [reading, writing], permission)
  }
  await refused(1, /no user "bob"/, 'repo', 'access', 'acme/rocket', 'bob', 'read')
  await refused(1, /no repository acme\/x/, 'repo', 'access', 'acme/x', 'ada', 'read')
  await refused(2, /permission|choices/i, 'repo', 'access', 'acme/rocket', 'ada', 'owner')
  await refused(2, /choices/i, 'repo', 'visibility', 'acme/rocket', 'secret')
  await refused(2, /choices/i, 'repo', 'create', 'acme/x', '--object-format', 'md5')
  for (const name of ['acme', 'acme/', '/x', 'a/b/c'])
    await refused(2, /expected OWNER\/NAME/, 'repo', 'create', name)

  await done('repo', 'delete', 'acme/rocket')
  t.notOk(existsSync(path), 'deleting takes its files along')
  t.equal(await status(token), 404)
  await refused(1, /no repository/, 'repo', 'delete', 'acme/rocket')
  t.match(await cli('repo', 'list'), { code: 0, stderr: '' })
  // Nobody can name what is below it by a path.
  const folder = 'x'.repeat(250)
  const deepen = `for (let depth = 0; depth < 20; depth++) { fs.mkdirSync('${folder}'); process.chdir('${folder}') }`
  execFileSync(process.execPath, ['--eval', deepen], { cwd: long })
  const deleted = await cli('repo', 'delete', 'acme/long')
  t.match(deleted, { code: 0, stdout: '', stderr: /^acme\/long is deleted\. .*: ENAMETOOLONG: / })
  rmSync(join(long, folder), { recursive: true })
})

t.test('imports', async (t) => {
  const { server, cli, done, refused, list } = await setUp(t)
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'import-')))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const before = process.env.INIT_CWD
  process.env.INIT_CWD = folder
  t.teardown(() => {
    if (before === undefined) delete process.env.INIT_CWD
    else process.env.INIT_CWD = before
  })
  git(folder, 'init', '--quiet', '--bare', 'bare.git')
  git(folder, 'init', '--quiet', '--object-format=sha256', 'checkout')
  mkdirSync(join(folder, 'empty'))
  writeFileSync(join(folder, 'file'), '')

  t.equal(await done('repo', 'import', 'acme/bare', 'bare.git', '--private'), '')
  t.match(await cli('repo', 'import', 'acme/checkout', join(folder, 'checkout/.git')), {
    code: 0,
    stderr: /^acme\/checkout is public: everyone can see it\.$/m,
  })
  t.same(await list('repo', 'list'), [
    { name: 'acme/bare', visibility: 'private', object_format: 'sha1', path: join(folder, 'bare.git') },
    {
      name: 'acme/checkout',
      visibility: 'public',
      object_format: 'sha256',
      path: join(folder, 'checkout/.git'),
    },
  ])
  await refused(2, /missing required argument 'path'/, 'repo', 'import', 'acme/x')
  for (const path of ['empty', 'file', 'gone', '.']) {
    await refused(1, /is not a git repository that can be opened/, 'repo', 'import', 'acme/x', path)
  }
  const [, sha = ''] = createCommits(join(folder, 'bare.git'), 2)
  git(
    folder,
    'clone',
    '--quiet',
    '--bare',
    '--depth=1',
    '--branch=main',
    `file://${folder}/bare.git`,
    'shallow.git',
  )
  await refused(1, /shallow\.git is a shallow clone/, 'repo', 'import', 'acme/x', 'shallow.git')
  const token = await server.createToken('acme')
  t.equal((await server.report('acme/bare', sha, { state: 'success' }, token)).status, 201)
  await done('repo', 'delete', 'acme/bare')
  t.ok(existsSync(join(folder, 'bare.git/HEAD')), "an imported repository's files stay")
})

t.test('repositories whose configuration other accounts can write', async (t) => {
  const { server, cli, done, refused } = await setUp(t)
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'import-')))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const create = (name: string) => {
    const path = join(folder, name)
    git(folder, 'init', '--quiet', '--bare', path)
    return path
  }
  const path = create('theirs.git')
  const [sha = ''] = createCommits(path, 1)
  chmodSync(join(path, 'config'), 0o664)
  const isRoot = process.getuid?.() === 0
  if (isRoot) execFileSync('chown', ['-R', 'nobody', path])
  const owner = isRoot ? `${path} belongs to the account nobody, and ` : ''
  const command = `${isRoot ? `chown -R root -- '${path}' && ` : ''}chmod go-w -- '${path}/config'`
  const reason = `${owner}other accounts can write ${path}/config; `
  const trust = `repo import acme/theirs '${path}' --trust-owner`
  const explained = new RegExp(`${reason}.*as root: ${command}.*run the service as.*run: ${trust}\n`)
  await refused(1, explained, 'repo', 'import', 'acme/theirs', path)
  t.same(await server.store.repositories.list(), [])

  await done('repo', 'import', 'acme/theirs', path, '--trust-owner')
  const token = await server.createToken('acme')
  t.equal((await server.report('acme/theirs', sha, { state: 'success' }, token)).status, 201)
  t.match(await cli('check'), { code: 0, stdout: '', stderr: `repository acme/theirs: ${reason}trusted` })
  const [, event] = JSON.parse(await done('audit', 'list', '--json'))
  t.match(event, { action: 'repository.imported', details: { path, trust_owner: true } })

  const ours = create('ours.git')
  await refused(3, /already a repository/, 'repo', 'import', 'acme/theirs', ours, '--trust-owner')
  await done('repo', 'import', 'acme/ours', ours)
  chmodSync(ours, 0o775)
  const found = `repository acme/ours: other accounts can write ${ours}; `
  t.match(await cli('check'), { code: 1, stdout: found }, 'since the import')
  await done('repo', 'import', 'acme/ours', ours, '--trust-owner')
  t.match(await cli('check'), { code: 0, stdout: '', stderr: found })

  const managed = await done('repo', 'create', 'acme/managed')
  chmodSync(join(managed, 'config'), 0o664)
  t.match(await cli('check'), { code: 0, stdout: '' }, 'a created repository is trusted')
  await refused(3, /already a repository/, 'repo', 'import', 'acme/managed', managed, '--trust-owner')
})

t.test('nobody inherits repositories by a name', async (t) => {
  const { server, done, refused } = await setUp(t)
  const path = await done('repo', 'create', 'acme/rocket', '--private')
  const [sha = ''] = createCommits(path, 1)
  await refused(1, /--own-existing/, 'user', 'create', 'ACME')
  await done('user', 'create', 'Acme', '--own-existing')
  const token = await done('token', 'create', 'acme')
  t.equal((await server.report('acme/rocket', sha, { state: 'success' }, token)).status, 201)
  await refused(1, /owns repositories/, 'user', 'delete', 'acme')
  t.equal((await server.read('acme/rocket', sha, token)).status, 200)
  await done('repo', 'visibility', 'acme/rocket', 'public')
  await done('repo', 'create', 'other/rocket')
  await done('repo', 'delete', 'acme/rocket')
  await done('user', 'delete', 'acme')
  t.equal(
    (await server.read('other/rocket', sha, token)).status,
    401,
    'the tokens of a deleted user end at once',
  )
})

t.test('tokens', async (t) => {
  const { server, cli, done, refused, list } = await setUp(t)
  const path = await done('repo', 'create', 'acme/rocket')
  const [sha = ''] = createCommits(path, 1)
  await done('user', 'create', 'ada')
  const printed = await cli('token', 'create', 'ada', '--name', 'CI', '--expires', '90d')
  t.match(printed, { code: 0, stderr: '', stdout: /^cst_[0-9A-Za-z]{38}\n$/ }, 'the token alone')
  const token = printed.stdout.trim()
  const bare = await done('token', 'create', 'ada', '--no-scopes')

  const tokens = await list('token', 'list', 'Ada')
  const [ci] = tokens.filter(({ name }: { name: string }) => name === 'CI')
  const shown = ['user', 'id', 'name', 'prefix', 'scopes', 'created_at', 'expires_at', 'last_used_at']
  t.same(Object.keys(ci), [...shown, 'repositories', 'contexts', 'push'])
  const unlimited = { repositories: null, contexts: null, push: true }
  t.match(ci, { prefix: token.slice(0, 10), scopes: ['repo'], last_used_at: null, ...unlimited })
  t.ok(Math.abs(Date.parse(ci.expires_at) - Date.now() - 90 * 86_400_000) < 60_000)
  const [other] = tokens.filter(({ name }: { name: string }) => name !== 'CI')
  t.match(other, { scopes: [], expires_at: null })
  t.notMatch(JSON.stringify(tokens), token.slice(4, 30).slice(6), 'no token is shown again')

  const read = async (secret: string) => (await server.read('acme/rocket', sha, secret)).status
  t.equal(await read(token), 200)
  t.equal(await read(bare), 403)
  await done('token', 'revoke', ci.id)
  t.equal(await read(token), 401, 'from the next request on')
  t.same(await list('token', 'list', 'ada'), [other], 'revoked tokens are gone from the list')
  await refused(1, /no token/, 'token', 'revoke', ci.id)
  await refused(1, /no user "bob"/, 'token', 'create', 'bob')
  await refused(1, /no user "bob"/, 'token', 'list', 'bob')
  await refused(
    2,
    /--expires: "2001-01-01" is in the past/,
    'token',
    'create',
    'ada',
    '--expires',
    '2001-01-01',
  )
  await refused(
    2,
    /--expires: "soon" is not a time \(expected/,
    'token',
    'create',
    'ada',
    '--expires',
    'soon',
  )
})

t.test('required checks of branches', async (t) => {
  const { server, cli, done, refused, list } = await setUp(t)
  await done('user', 'create', 'Ada')
  await done('repo', 'create', 'ada/rocket')
  t.match(await cli('rule', 'list'), { code: 0, stdout: '', stderr: /no rules/ })
  const set = ['rule', 'set', 'Ada/Rocket', 'release/*']
  await done(...set, '--require', 'ci/*', 'lint', '--bypass', 'ADA')
  await done('rule', 'set', 'ada/rocket', 'main', '--require', 'lint', '--require', 'ci/test')
  const release = {
    repository: 'ada/rocket',
    branch: 'release/*',
    require: ['ci/*', 'lint'],
    bypass: ['Ada'],
    note: '',
  }
  t.same(await list('rule', 'list'), [
    { repository: 'ada/rocket', branch: 'main', require: ['lint', 'ci/test'], bypass: [], note: '' },
    release,
  ])
  t.match(
    await done('rule', 'list', 'ada/rocket'),
    /^REPOSITORY +PATTERN +REQUIRE +BYPASS +NOTE\n.* main +lint ci\/test +- +-\n/,
  )
  await refused(2, /--require/, ...set)
  await refused(
    1,
    /^error: all required patterns contain "\*" \("ci\/\*", "\*"\): the first match meets .+ reports last\n$/,
    ...set,
    ...['--require', 'ci/*', '*'],
  )
  await refused(1, /no user "bob"/, ...set, '--require', 'ci', '--bypass', 'bob')
  await refused(
    1,
    /leave out "refs\/heads\/"/,
    'rule',
    'set',
    'ada/rocket',
    'refs/heads/x',
    '--require',
    'ci',
  )
  await refused(1, /no repository ada\/none/, 'rule', 'list', 'ada/none')
  await refused(1, /no rule for the pattern "x"/, 'rule', 'remove', 'ada/rocket', 'x')
  await done('rule', 'remove', 'ada/rocket', 'main')
  t.same(await list('rule', 'list', 'ada/rocket'), [release])
  // A rule of a version that did not refuse it.
  const database = new Sqlite(join(server.dataDir, 'commit-status.db'))
  database.prepare(`update branch_rules set required = '["ci/*"]'`).run()
  database.close()
  t.match(await done('rule', 'list'), /ci\/\* +Ada +met by the first match$/)
  const page = await (await fetch(`${server.url}/ada/rocket`)).text()
  t.match(page, '<dd><bdi>ci/*</bdi> <span class="faint">(met by the first match)</span></dd>')
})

t.test('rules of tags, and of patterns that no name can match', async (t) => {
  const { server, cli, done, refused, list } = await setUp(t)
  await done('user', 'create', 'Ada')
  const path = await done('repo', 'create', 'ada/rocket')
  const set = (pattern: string) => cli('rule', 'set', 'ada/rocket', pattern, '--require', 'ci')
  for (const [pattern, message] of [
    [
      'main/',
      /pattern "main\/": the name of a branch may not end with "\/"; did you mean "main" or "main\/\*"\?/,
    ],
    [
      'refs/tags/v[12]',
      /pattern "refs\/tags\/v\[12\]": the name of a tag may not contain any of .+set a rule for each name/,
    ],
  ] as const)
    t.match(await set(pattern), { code: 1, stderr: message }, pattern)
  t.match(await set('refs/tags/v*'), {
    code: 0,
    stderr: 'refs/tags/v*: no tag matches yet\n',
  })
  t.match(await set('origin/1'), {
    code: 0,
    stderr: /no branch matches yet; it is about branches .+leave it out: "1"/,
  })
  git(path, 'update-ref', 'refs/tags/2', createCommits(path, 1, 'kept')[0] ?? '')
  t.match(await set('refs/tags/2'), { code: 0, stderr: '' })
  const notes = async () =>
    Object.fromEntries(
      (await list('rule', 'list')).map(({ branch, note }: Record<string, string>) => [branch, note]),
    )
  t.strictSame(await notes(), { 'origin/1': '', 'refs/tags/2': '', 'refs/tags/v*': '' })

  // As a version before 0.4.0 stored them.
  const database = new Sqlite(join(server.dataDir, 'commit-status.db'))
  const names = ['main/', ' main', 'refs/tags/v/']
  for (const name of names)
    database
      .prepare(
        'insert into branch_rules (repository_id, branch_pattern, required, created_at) values (1, ?, ?, 1)',
      )
      .run(name, '["ci"]')
  database.close()
  t.strictSame(await notes(), {
    ' main': 'never matches',
    'main/': 'never matches',
    'origin/1': '',
    'refs/tags/2': '',
    'refs/tags/v*': '',
    'refs/tags/v/': 'never matches',
  })
  const page = await (await fetch(`${server.url}/ada/rocket`)).text()
  t.match(
    page,
    /These tags are created on commits.+<dt><bdi>refs\/tags\/v\/<\/bdi><\/dt>\s+<dd><bdi>ci<\/bdi> <span class="faint">\(never matches\)/s,
  )
  await refused(1, /did you mean/, 'rule', 'set', 'ada/rocket', 'main/', '--require', 'lint')
  for (const name of names) await done('rule', 'remove', 'ada/rocket', name)
  t.strictSame(Object.keys(await notes()), ['origin/1', 'refs/tags/2', 'refs/tags/v*'])
})

t.test('limited tokens, and who reported', async (t) => {
  const { server, cli, done, refused, list } = await setUp(t)
  const path = await done('repo', 'create', 'Ada/rocket')
  const [sha = ''] = createCommits(path, 1)
  await done('repo', 'create', 'Ada/probe', '--private')
  await done('user', 'create', 'ada', '--own-existing')
  const create = ['token', 'create', 'ada', '--name', 'CI'] as const
  const limits = [
    '--repo',
    'ADA/rocket',
    'ada/probe',
    '--repo',
    'ada/rocket',
    '--context',
    'ci/*',
    'a\u001bb',
  ] as const
  const token = await done(...create, ...limits, '--no-push')
  t.match(await list('token', 'list', 'ada'), [
    { repositories: ['Ada/probe', 'Ada/rocket'], contexts: ['ci/*', 'a\u001bb'], push: false },
  ])
  t.match(await done('token', 'list', 'ada'), /PUSH\n.* Ada\/probe Ada\/rocket +ci\/\* a\ufffdb +no$/)
  for (const name of ['probe', 'rocket']) {
    if (name === 'rocket') {
      t.equal(
        (await server.report('ada/rocket', sha, { state: 'failure', context: 'ci/x' }, token)).status,
        201,
      )
      const [reported, ...others] = await list('status', 'list', 'ada/rocket', sha.toUpperCase())
      t.match(reported, { context: 'ci/x', state: 'failure', description: null, user: 'ada', token: 'CI' })
      t.same(others, [])
      t.match(await done('status', 'list', 'ada/rocket', sha), /TOKEN\nci\/x +failure +\S+Z +ada +CI$/)
      for (const given of [
        ['ada/rocket', sha.slice(0, 7)],
        [sha, '--repo', 'ada/rocket'],
        ['--repo=ada/rocket', sha],
      ])
        t.match(await done('status', 'list', ...given), /ci\/x +failure/, given.join(' '))
      const usage = /too many arguments.*\(see commit-status-admin status list --help\)/s
      await refused(2, usage, 'status', 'list', 'ada/rocket', sha, '--repo', 'ada/rocket')
      const twin = `${sha.slice(0, 39)}${sha.endsWith('0') ? '1' : '0'}`
      const statuses = server.store.engine.kysely
      const [row] = await statuses.selectFrom('statuses').selectAll().where('sha', '=', sha).execute()
      if (!row) throw new Error('the report is not stored')
      await statuses
        .insertInto('statuses')
        .values({ ...row, sha: twin, id: `${row.id}-` })
        .execute()
      await refused(1, /fits several commits/, 'status', 'delete', 'ada/rocket', sha.slice(0, 39), 'ci/x')
      await statuses.deleteFrom('statuses').where('sha', '=', twin).execute()
      const shown = ['token', 'create', '--user', 'nobody', '--repo', 'ada/rocket']
      await refused(1, /no user "nobody"/, ...shown)
      await refused(2, /\(see commit-status-admin audit list --help\)/, 'audit', 'list', '--since', '1w')
      await refused(1, /no status of the context "ci\/y"/, 'status', 'delete', 'ada/rocket', sha, 'ci/y')
      await done('status', 'delete', 'ada/rocket', sha, 'ci/x')
      t.match((await server.read('ada/rocket', sha)).json, { state: null, statuses: [] })
      t.match(await cli('status', 'list', 'ada/rocket', sha), { code: 0, stdout: '', stderr: /no statuses/ })
      await refused(1, /no commit .* begins with/, 'status', 'list', 'ada/rocket', sha.slice(0, 7))
      await refused(1, /sha is 3 hex digits long/, 'status', 'list', 'ada/rocket', sha.slice(0, 3))
    }
    await done('repo', 'delete', `ada/${name}`)
  }
  t.match(await list('token', 'list', 'ada'), [{ repositories: [] }])
  t.match(await done('token', 'list', 'ada'), / none +ci/, 'not like a token without limits')
  await refused(1, /no repository ada\/x/, ...create, '--repo', 'ada/x')
  await refused(2, /expected OWNER\/NAME/, ...create, '--repo', 'x')
  await refused(1, /at most 255/, ...create, '--context', 'x'.repeat(256))
  await refused(1, /the context pattern is empty/, ...create, '--context', '')
  await refused(1, /at most 20/, ...create, '--context', ...Array.from({ length: 21 }, () => '*'))
  await refused(1, /must not contain U\+0000/, ...create, '--context', 'a\0')
})

t.test('usage', async (t) => {
  const { cli, refused } = await setUp(t)
  await refused(2, /^Usage: .*\n[\s\S]*user/)
  await refused(2, /^Usage: /, 'user')
  await refused(2, /unknown command 'users'/, 'users')
  await refused(2, /unknown option '--x'/, 'user', 'list', '--x')
  for (const command of ['delete', 'password']) await refused(2, /missing required argument/, 'user', command)
  await refused(2, /too many arguments/, 'user', 'delete', 'a', 'b')
  t.match(await cli('--help'), { code: 0, stdout: /^Usage: /, stderr: '' }, 'help that was asked for')
  t.match(await cli('migrate'), { code: 0, stdout: '', stderr: /up to date/ })
  const wrong = await runCli(['user', 'list'], { PORT: 'x' })
  t.match(
    wrong,
    { code: 1, stdout: '', stderr: /^error: PORT: "x" is not a whole number from 0 to 65535\n$/ },
    'a wrong variable is named',
  )
})

t.test('as a process, through npm', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'cli-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const npm = (...args: string[]) =>
    startProcess(t, 'npm', ['run', '--silent', 'cli', '--', ...args], { DATA_DIR: folder })
  const created = npm('repo', 'create', 'acme/rocket')
  t.equal(await created.ended, 0)
  t.equal(created.stdout(), `${join(folder, 'repositories/1.git')}\n`)
  t.match(created.stderr(), /^acme\/rocket is public: .*\nwarning: acme is a group without members\. .*\n$/)
  const again = npm('repo', 'create', 'acme/rocket')
  const usage = npm('repo')
  t.equal(await again.ended, 3)
  t.match(again.stderr(), /^error: there is already a repository acme\/rocket\n$/)
  t.equal(await usage.ended, 2)
  const cut = startProcess(t, 'bash', ['-c', 'npm run --silent cli -- repo list | true; exit $PIPESTATUS'], {
    DATA_DIR: folder,
  })
  t.equal(await cut.ended, 141)
  t.equal(cut.stderr(), '', 'whatever reads the output may end before')
  const script = 'npm run --silent cli -- repo create acme/b 2> >(true); echo "code $?"'
  const unread = startProcess(t, 'bash', ['-c', script], { DATA_DIR: folder })
  t.equal(await unread.ended, 0)
  t.equal(unread.stdout(), `${join(folder, 'repositories/3.git')}\ncode 0\n`, 'the same for standard error')
  t.equal(usage.stdout(), '')
})

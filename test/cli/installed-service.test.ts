import { execFileSync, spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import t from 'tap'
import { parse } from 'yaml'
import { parseEnvironmentFile } from '../../src/cli/parts/environment-file.ts'
import { checkAccount } from '../../src/ops/data-directory.ts'
import { openStore } from '../../src/store/store.ts'
import { accountName } from '../../src/util/accounts.ts'
import { runCli } from '../helpers/cli.ts'
import { createPostgresDatabase, postgres, sqlite, temporaryFolder } from '../helpers/databases.ts'
import { minimalEnvironment, startProcess } from '../helpers/process.ts'

/** Commands that work on what is there. */
const WITHOUT_CREATING = [
  ['user', 'list'],
  ['user', 'delete', 'alice'],
  ['repo', 'list'],
  ['repo', 'delete', 'alice/rocket'],
  ['repo', 'visibility', 'alice/rocket', 'public'],
  ['repo', 'access', 'alice/rocket', 'bob', 'read'],
  ['token', 'create', 'alice'],
  ['token', 'list', 'alice'],
  ['token', 'revoke', 'x'],
  ['blocked', 'list'],
  ['blocked', 'lift', '192.0.2.1'],
  ['backup', '/nonexistent/x.backup'],
  ['check'],
  ['prune', '--older-than', '1d'],
]

t.test('commands create no database, except those that begin a service', async (t) => {
  const folder = temporaryFolder(t)
  const nowhere = { DATA_DIR: join(folder, 'none') }
  for (const command of WITHOUT_CREATING) {
    const { code, stderr } = await runCli(command, nowhere)
    t.equal(code, 1, command.join(' '))
    t.match(stderr, /^error: there is no database at .*\/none\/commit-status\.db\. Set DATA_DIR .*\n$/)
  }
  t.notOk(existsSync(nowhere.DATA_DIR), 'no folder either')

  const empty = { DATA_DIR: folder, DATABASE_URL: await createPostgresDatabase(t) }
  const list = await runCli(['user', 'list'], empty)
  t.match(list, {
    code: 1,
    stderr: /^error: \S+\/test_\w+ is empty: it is not a database of the server\. Set /,
  })
  t.notMatch(list.stderr, /postgres:/, 'neither user nor password')

  for (const command of [['user', 'create', 'alice'], ['repo', 'create', 'alice/rocket'], ['migrate']]) {
    const DATA_DIR = join(folder, command.join('-').replace('/', '-'))
    t.match(await runCli(command, { DATA_DIR }), { code: 0 }, command.join(' '))
    t.ok(existsSync(join(DATA_DIR, 'commit-status.db')), command.join(' '))
  }
})

for (const kind of [sqlite, postgres]) {
  t.test(
    `${kind.name}: an empty database beside repositories is created only if that is meant`,
    async (t) => {
      const { dataDir, databaseUrl } = await kind.create(t)
      mkdirSync(join(dataDir, 'repositories', '1.git'), { recursive: true })
      const file = join(dataDir, 'commit-status.db')
      rmSync(file, { force: true })
      const environment = { DATA_DIR: dataDir, DATABASE_URL: databaseUrl ?? undefined, SUDO_USER: 'alice' }
      const lost =
        /: \S+ has no users and no repositories, but \S+ has repositories of an earlier .* "restore" .* "migrate"\n$/
      const refuse = async () =>
        t.match(await runCli(['user', 'create', 'alice'], environment), { code: 1, stderr: lost })
      const refuseToServe = async () => {
        const server = startProcess(t, process.execPath, ['src/server.ts'], {
          ...environment,
          LOG_LEVEL: 'silent',
        })
        t.equal(await server.ended, 1)
        t.match(server.stderr(), lost)
      }
      await refuse()
      await refuseToServe()
      t.notOk(existsSync(file), 'creates no file')
      if (!databaseUrl) writeFileSync(file, '')
      await refuse()
      const restore = await runCli(['restore', '/nonexistent/x'], environment)
      t.match(restore, { code: 1, stderr: /nonexistent\/x cannot be read/ }, 'restores beside repositories')
      await refuse()

      t.match(await runCli(['migrate'], environment), { code: 0 })
      t.match(await runCli(['migrate'], environment), { code: 0 })
      t.match(await runCli(['user', 'create', 'alice'], { ...environment, SUDO_USER: undefined }), {
        code: 0,
      })
      const account = accountName(process.geteuid?.() ?? 0)
      t.equal(
        (await runCli(['audit', 'list'], environment)).stdout.replace(/^\S+/gm, 'T'),
        `T  administrator  -  audit.began  audit log  account=${account} sudo_user=alice
T  administrator  -  user.created  alice  password=false account=${account}\n`,
      )
    },
  )
}

t.test('reads the environment file of the service', async (t) => {
  const folder = temporaryFolder(t)
  const file = join(folder, 'commit-status.env')
  const DATA_DIR = join(folder, 'data')
  writeFileSync(file, `# of the service\nDATA_DIR="${DATA_DIR}"\nPORT=3001\n`)
  t.match(await runCli(['--env-file', file, 'user', 'create', 'alice'], {}), { code: 0 })
  t.match(await runCli(['user', 'list', '--env-file', file], {}), { code: 0, stdout: /alice/ }, 'anywhere')
  t.match(await runCli(['--env-file', file, 'user', 'list'], { DATA_DIR: join(folder, 'other') }), {
    code: 1,
    stderr: /no database at .*other/,
  })
  t.match(await runCli(['--env-file', file, 'user', 'list'], { HOSTS: 'x' }), {
    code: 0,
    stdout: /alice/,
    stderr: 'warning: HOSTS: unknown variable (do you mean HOST?)\n',
  })
  t.match(await runCli(['--env-file', `${file}.x`, 'user', 'list'], {}), {
    code: 2,
    stderr:
      /^error: --env-file: ENOENT: .*commit-status\.env\.x' \(see commit-status-admin user list --help\)\n$/,
  })
})

t.test('a value of the environment file is what systemd makes of it', async (t) => {
  // Compared with systemd 252, whose generator of environment.d reads the same syntax.
  for (const [line, value] of [
    ['A=/tmp/a#b', '/tmp/a#b'],
    ['A = x ', 'x'],
    ['A=a  "b" # c ; d', 'a  "b" # c ; d'],
    [String.raw`A=a\\b\ \"c\#\   `, String.raw`a\b "c# `],
    ['A=one \\\n two', 'one  two'],
    ['A=one\r\nB=two', 'one'],
    [`A='a\\b "c"\n#d' `, 'a\\b "c"\n#d'],
    [String.raw`A="a\"b\\c\$d\e #f"`, String.raw`a"b\c$d\e #f`],
    ['A="one\\\n two\nthree"', 'one two\nthree'],
    [`A='a' "b"c 'd'`, "abc 'd'"],
    ['A=', ''],
    ['# A=x\n; A=y\n\nA\nA=z', 'z'],
    ['A="not closed', 'not closed'],
  ] as const)
    t.equal(parseEnvironmentFile(line).A, value, line)
  t.same(parseEnvironmentFile('# A=x\n; B=y\n ;C=z\nD=1\n'), { D: '1' }, 'comments set nothing')
})

t.test('a misspelled variable in the environment file is refused', async (t) => {
  const file = join(temporaryFolder(t), 'commit-status.env')
  writeFileSync(file, 'TRUSTED_PROXY=127.0.0.1\n')
  t.match(await runCli(['--env-file', file, 'migrate'], {}), {
    code: 1,
    stderr: 'error: TRUSTED_PROXY: unknown variable (do you mean TRUSTED_PROXIES?)\n',
  })
})

t.test('node leaves the options of a command to the command', async (t) => {
  const folder = temporaryFolder(t)
  const missing = join(folder, 'missing.env')
  const expected =
    /^error: --env-file: ENOENT: .*missing\.env' \(see commit-status-admin user list --help\)\n$/
  const scripted = spawnSync('npm', ['run', '--silent', 'cli', '--', '--env-file', missing, 'user', 'list'], {
    encoding: 'utf8',
  })
  t.equal(scripted.status, 2, 'npm run cli')
  t.match(scripted.stderr.split('\n').slice(-2).join('\n'), expected)

  mkdirSync(join(folder, 'src/bin'), { recursive: true })
  mkdirSync(join(folder, 'bin'))
  mkdirSync(join(folder, 'node_modules/node-linux-test/bin'), { recursive: true })
  symlinkSync(process.execPath, join(folder, 'node_modules/node-linux-test/bin/node'))
  writeFileSync(
    join(folder, 'src/bin/PROGRAM.js'),
    `await import(${JSON.stringify(`${process.cwd()}/src/cli/main.ts`)})`,
  )
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  const launcher = readFileSync('src/packaging/launcher', 'utf8').replace('=SEMI_SPACE', '=2')
  writeFileSync(join(folder, 'bin/PROGRAM'), launcher)
  const launched = spawnSync('sh', [join(folder, 'bin/PROGRAM'), '--env-file', missing, 'user', 'list'], {
    encoding: 'utf8',
  })
  t.equal(launched.status, 2, 'the launcher of the package')
  t.match(launched.stderr, expected)
})

t.test('a folder without a database gets no advice about its modes', async (t) => {
  const folder = temporaryFolder(t)
  chmodSync(folder, 0o755)
  writeFileSync(join(folder, 'of-somebody-else'), '')
  const { code, stderr } = await runCli(['user', 'list'], { DATA_DIR: folder })
  t.equal(code, 1)
  t.match(stderr, /^error: there is no database at /)
  t.notMatch(stderr, /chmod/)
})

t.test("root does not write into another account's data directory", async (t) => {
  const folder = join(temporaryFolder(t), 'data')
  mkdirSync(folder)
  const isRoot = process.geteuid?.() === 0
  if (isRoot) chownSync(folder, 65_533, 65_533)
  const owner = statSync(folder).uid
  t.throws(() => checkAccount(folder, 'it', 0), {
    name: 'Refusal',
    message: /^\/\S+ belongs to the account \S+, and root would .*: sudo -u \S+ it$/,
  })
  t.doesNotThrow(() => checkAccount(folder, 'it', owner), 'its own')
  t.doesNotThrow(() => checkAccount(join(folder, 'none'), 'it', 0), 'a directory that is still to be created')
  if (!isRoot) return
  const refused = await runCli(['user', 'create', 'alice'], { DATA_DIR: folder })
  t.match(refused, { code: 1, stderr: /sudo -u '#65533' commit-status-admin/ })
  t.same(readdirSync(folder), [], 'nothing was written')
})

t.test(
  'a database of a newer version or of another program is refused by every command and by the server',
  async (t) => {
    const folder = temporaryFolder(t)
    const [newer, foreign] = [join(folder, 'newer'), join(folder, 'foreign')]
    await (await openStore({ dataDir: newer })).close()
    change(newer, "insert into schema_migrations values ('999-later', 0), ('998-late', 0)")
    mkdirSync(foreign)
    change(foreign, 'create table books (title text)')
    const unknown =
      /newer\/commit-status\.db: the database was migrated by a newer version \(unknown: 998-late, 999-later\)\. Install /
    const other = /foreign\/commit-status\.db: the database belongs to another program: it contains books\. /
    for (const [DATA_DIR, message] of [
      [newer, unknown],
      [foreign, other],
    ] as const) {
      for (const command of [...WITHOUT_CREATING, ['user', 'create', 'bob'], ['migrate']]) {
        const { code, stdout, stderr } = await runCli(command, { DATA_DIR })
        t.same([code, stdout], [1, ''], command.join(' '))
        t.match(stderr, message)
      }
      const server = startProcess(t, process.execPath, ['src/server.ts'], {
        DATA_DIR,
        PORT: '0',
        LOG_LEVEL: 'silent',
      })
      t.equal(await server.ended, 1)
      t.match(server.stderr(), new RegExp(`^DATA_DIR: .*${message.source}.*\\n$`))
    }
  },
)

function change(dataDir: string, statement: string): void {
  const database = new Sqlite(join(dataDir, 'commit-status.db'))
  database.exec(statement)
  database.close()
}

t.test('asks for a password at a terminal, without showing it', async (t) => {
  const DATA_DIR = temporaryFolder(t)
  const command = `${process.execPath} src/cli/main.ts user create alice --password-stdin`
  const enter = async (...lines: string[]) => {
    // A terminal of its own, from util-linux.
    const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
      env: { ...process.env, DATA_DIR },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    let shown = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      shown += text
      if (/(Password|again): $/.test(shown)) child.stdin.write(lines.shift() ?? '')
    })
    return new Promise<{ code: number | null; shown: string }>((resolve) =>
      child.on('close', (code) => resolve({ code, shown })),
    )
  }
  const differing = await enter('a good password\r', 'another password\r')
  t.match(differing, { code: 1, shown: /error: the two passwords differ/ })
  t.match(await enter('\u0003'), { code: 1, shown: /error: no password was entered/ })
  t.match(await enter('short\r', 'short\r'), {
    code: 1,
    shown: /5 characters long; at least \d+ are required/,
  })
  const created = await enter('a good password\r', 'a good password\r')
  t.equal(created.code, 0, created.shown)
  t.notMatch(differing.shown + created.shown, /a good password|another/)
})

t.test('check finds a repository that the service cannot write', async (t) => {
  const folder = temporaryFolder(t)
  const DATA_DIR = join(folder, 'data')
  const created = await runCli(['repo', 'create', 'alice/rocket'], { DATA_DIR })
  const path = created.stdout.trim()
  const isRoot = process.geteuid?.() === 0
  const account = isRoot ? { uid: 65_533, gid: 65_533 } : {}
  if (isRoot) {
    execFileSync('chown', ['--recursive', '65533:65533', folder])
    chownSync(join(path, 'refs'), 0, 0)
  }
  chmodSync(join(path, 'refs'), 0o555)
  t.teardown(() => chmodSync(join(path, 'refs'), 0o755))
  const check = spawnSync(process.execPath, ['src/cli/main.ts', 'check'], {
    env: { ...minimalEnvironment(), DATA_DIR },
    encoding: 'utf8',
    ...account,
  })
  t.match(check.stdout, /^repository alice\/rocket: the repository .* cannot be written: EACCES: .*refs'\n$/)
  t.match(check, { status: 1, stderr: /^error: found 1 problem\n$/ })
})

t.test('--version', async (t) => {
  t.match(await runCli(['--version'], {}), { code: 0, stdout: /^\d+\.\d+\.\d+\n$/, stderr: '' })
  const { info } = parse(readFileSync('openapi.yaml', 'utf8'))
  const json = await runCli(['--env-file', 'unused', '--version', '--json'], {})
  t.same(JSON.parse(json.stdout), {
    version: JSON.parse(readFileSync('package.json', 'utf8')).version,
    contract: info.version,
    node: process.versions.node,
    commit: null,
  })
})

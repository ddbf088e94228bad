import { once } from 'node:events'
import { chmodSync, chownSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import type { components } from '../generated/schema.ts'
import { createToken, hashToken } from '../src/auth/token.ts'
import { createBareRepository } from '../src/git/repository.ts'
import { checkAccount } from '../src/ops/data-directory.ts'
import { openStore } from '../src/store/store.ts'
import { asAdministrator } from './helpers/changes.ts'
import { runCli } from './helpers/cli.ts'
import { openTestStore, sqlite } from './helpers/databases.ts'
import { createCommits } from './helpers/git.ts'
import { startProcess } from './helpers/process.ts'
import { until } from './helpers/until.ts'

type CommitStatuses = components['schemas']['CommitStatuses']

const LISTENING = /^Listening on (http:\/\/127\.0\.0\.1:(\d+))$/m

function dataFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'server-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Prepares a data directory with a repository, a commit and a token that may report on it. */
async function prepare(t: Test) {
  const { store, options } = await openTestStore(t, sqlite)
  const { id: userId } = await asAdministrator(store).users.create('acme')
  const rocket = { owner: 'acme', name: 'rocket', visibility: 'public', objectFormat: 'sha1' } as const
  const repository = await asAdministrator(store).repositories.create(rocket)
  await createBareRepository(repository.path, 'sha1')
  const token = createToken()
  const hash = hashToken(token)
  await asAdministrator(store).tokens.create({
    userId,
    name: 'ci',
    prefix: '',
    hash,
    scopes: ['repo'],
    expiresAt: null,
  })
  const [sha = ''] = createCommits(repository.path, 1)
  return {
    dataDir: options.dataDir,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    reportPath: `/api/v1/repos/acme/rocket/statuses/${sha}`,
    readPath: `/api/v1/repos/acme/rocket/commits/${sha}/statuses`,
  }
}

/** Starts the server process on a free port. */
async function serve(t: Test, dataDir: string, environment: NodeJS.ProcessEnv = {}) {
  const server = startProcess(t, process.execPath, ['src/server.ts'], {
    PORT: '0',
    DATA_DIR: dataDir,
    LOG_LEVEL: 'info',
    ...environment,
  })
  const [, url = ''] = await server.printed(LISTENING)
  return { ...server, url }
}

t.test('npm start serves, and exits with 0 when only npm gets the signal', async (t) => {
  const environment = { PORT: '0', DATA_DIR: dataFolder(t), LOG_LEVEL: 'silent' }
  const npm = startProcess(t, 'npm', ['start', '--silent'], environment)
  const [, url, port] = await npm.printed(LISTENING)
  t.equal((await fetch(`${url}/openapi.json`)).status, 200, 'it answers requests once the line is printed')
  t.not(port, '0', 'port 0 picks a free one')
  npm.child.kill('SIGTERM')
  t.equal(await npm.ended, 0)
  t.equal(npm.stdout(), `Listening on ${url}\n`, 'silent: only the line')
  await t.rejects(fetch(`${url}/openapi.json`), 'the port is closed')
})

t.test('everything else on stdout is JSON, also without git, which it misses at once', async (t) => {
  const environment = { MAX_CONTEXTS: '2000', PATH: '/nonexistent' }
  const { child, ended, printed, stdout, stderr, url } = await serve(
    t,
    (await sqlite.create(t)).dataDir,
    environment,
  )
  await printed(/git cannot be run/)
  t.equal((await fetch(`${url}/healthz`)).status, 200, 'it serves what does not need git')
  t.equal((await fetch(`${url}/readyz`)).status, 503)
  await fetch(`${url}/api/v1/x`)
  child.kill('SIGINT')
  t.equal(await ended, 0, 'SIGINT stops it as well')
  const lines = stdout().trim().split('\n')
  const others = lines.filter((line) => !LISTENING.test(line))
  t.equal(others.length, lines.length - 1, 'one plain line')
  t.ok(others.length > 1)
  for (const line of others) t.type(JSON.parse(line).level, 'number')
  const command = 'npm run --silent cli -- user create NAME --password-stdin'
  t.match(others.join('\n'), command, 'explains how to start with an empty database')
  t.match(others.join('\n'), '"level":40', 'warns')
  t.match(others.join('\n'), 'MAX_CONTEXTS: 2000 is read as 1000')
  t.equal(stderr(), '')
})

/** Stops a server while a report arrives. */
async function stopDuringReport(
  t: Test,
  { child, ended, printed, url }: Awaited<ReturnType<typeof serve>>,
  { headers, reportPath }: Awaited<ReturnType<typeof prepare>>,
): Promise<void> {
  const body = JSON.stringify({ state: 'success' })
  const sending = request(`${url}${reportPath}`, {
    method: 'POST',
    headers: { ...headers, 'content-length': body.length, expect: '100-continue' },
  })
  sending.flushHeaders()
  await once(sending, 'continue')
  child.kill('SIGTERM')
  await printed(/"msg":"stopping"/)
  const answered = once(sending, 'response')
  sending.end(body)
  const [response] = await answered
  t.equal(response.statusCode, 201)
  t.match(JSON.parse(await text(response)), { state: 'success' })
  t.equal(await ended, 0)
}

/** Connects to a server while it accepts nothing. What the system drops would come after seconds. */
async function connectToStopped(
  t: Test,
  { child, url }: Pick<Awaited<ReturnType<typeof serve>>, 'child' | 'url'>,
): Promise<void> {
  const { hostname, port } = new URL(url)
  child.kill('SIGSTOP')
  t.teardown(() => child.kill('SIGCONT'))
  let connected = 0
  for (let index = 0; index < 1_000; index++) {
    const socket = connect({ host: hostname, port: Number(port) }, () => connected++).on('error', () => {})
    t.teardown(() => socket.destroy())
  }
  await until(() => connected === 1_000)
}

t.test('after kill -9 under load every acknowledged report is stored', async (t) => {
  const prepared = await prepare(t)
  const { dataDir, headers, reportPath, readPath } = prepared
  const first = await serve(t, dataDir)
  const answered = new Map<string, string>()
  const enough = Promise.withResolvers<void>()
  const report = async (worker: number) => {
    for (let index = 0; ; index++) {
      // New contexts and replacing reports.
      const context = `ci/${worker}/${index % 20}`
      const description = `${index}`
      const body = JSON.stringify({ state: 'success', context, description })
      const answer = await fetch(first.url + reportPath, { method: 'POST', headers, body })
      if (answer.status !== 201) throw new Error(`${answer.status}`)
      await answer.json()
      answered.set(context, description)
      if (answered.size >= 100) enough.resolve()
    }
  }
  const workers = Array.from({ length: 8 }, (_, worker) => report(worker))
  const over = Promise.allSettled(workers)
  await enough.promise
  first.child.kill('SIGKILL')
  t.equal(await first.ended, 'SIGKILL')
  await over

  const second = await serve(t, dataDir)
  // Validated by the contract tests.
  const { statuses } = (await (await fetch(second.url + readPath)).json()) as CommitStatuses
  const stored = new Map(statuses.map(({ context, description }) => [context, description]))
  for (const [context, description] of answered) {
    // Each worker may have stored one more report without receiving the answer.
    t.ok(Number(stored.get(context)) >= Number(description), `${context}: ${description}`)
  }
  t.ok(stored.size <= answered.size + workers.length)
  await t.test('a server that stands still keeps a thousand connections waiting', (t) =>
    connectToStopped(t, second),
  )
  await t.test('a request in progress is answered before it exits', (t) =>
    stopDuringReport(t, second, prepared),
  )
})

t.test('exits with an error on start', async (t) => {
  const file = join(dataFolder(t), 'file')
  writeFileSync(file, '')
  const other = dataFolder(t)
  writeFileSync(join(other, 'commit-status.db'), 'x'.repeat(10_000))
  const [{ dataDir: sound }, { dataDir: damaged }] = [await sqlite.create(t), await sqlite.create(t)]
  // Everything but the first page, which has the header.
  const database = readFileSync(join(damaged, 'commit-status.db'))
  writeFileSync(join(damaged, 'commit-status.db'), database.fill('x', 4096))
  const taken = createServer().listen(0, '127.0.0.1')
  t.teardown(() => taken.close())
  await once(taken, 'listening')
  const address = taken.address()
  const port = typeof address === 'object' && address ? String(address.port) : ''
  const foreign = dataFolder(t)
  const isRoot = process.geteuid?.() === 0
  if (isRoot) chownSync(foreign, 65_533, 65_533)
  else chmodSync(foreign, 0o500)
  const refused = [
    ['an invalid host', { HOST: 'host.invalid' }, /^HOST: .*host\.invalid/],
    ['a port in use', { PORT: port }, new RegExp(`^PORT: .*${port}; set PORT to a free port, .*\\n$`)],
    [
      isRoot ? 'one of another account' : 'one that cannot be written',
      { DATA_DIR: foreign },
      isRoot ? /^DATA_DIR: .* sudo -u '#65533' commit-status-server\n$/ : /^DATA_DIR: .*CANTOPEN/,
    ],
    ['a damaged database', { DATA_DIR: damaged }, /^DATA_DIR: .*\/commit-status\.db: .*CORRUPT: .* damaged/],
  ] as const
  await Promise.all(
    refused.map(async ([what, environment, message]) => {
      const server = startProcess(t, process.execPath, ['src/server.ts'], {
        PORT: '0',
        DATA_DIR: sound,
        LOG_LEVEL: 'silent',
        ...environment,
      })
      t.equal(await server.ended, 1, what)
      t.match(server.stderr(), message, what)
      t.equal(server.stderr().trim().split('\n').length, 1, `${what}: one line`)
      t.equal(server.stdout(), '')
    }),
  )

  // Errors of the same kinds, which the server reports in the same way.
  const unusable = [
    ['below a file', `${file}/data`, /\/file is not a folder$/],
    ['cannot be created', '/proc/x', /\/proc\/x cannot be created: no such/],
    ['no place for files', '/proc', /^\/proc(\/commit-status\.db: .*CANTOPEN| belongs to root)/],
    ['another file', other, /\/commit-status\.db: .*NOTADB: the file is not a database/],
  ] as const
  const open = async (dataDir: string) => {
    checkAccount(dataDir, 'commit-status-server')
    await openStore({ dataDir })
  }
  for (const [what, dataDir, message] of unusable)
    await t.rejects(open(dataDir), { name: /^(StoreUnavailable|Refusal)$/, message }, what)
})

t.test('a full disk stops the start with one sentence, and so every command', async (t) => {
  const [server, command] = [['src/server.ts'], ['src/cli/main.ts', 'migrate']]
  for (const [bytes, programs] of [
    [0, [command]],
    [4096, [command]],
    [20_000, [server]],
  ] as const) {
    const DATA_DIR = join(dataFolder(t), `${bytes}`)
    for (const args of programs) {
      // Files can get no larger than that, which SQLite reports like a full disk.
      // Without tap's hooks, which write files too.
      const limited = ['-u', 'NODE_OPTIONS', 'prlimit', `--fsize=${bytes}`, process.execPath, ...args]
      const failed = startProcess(t, 'env', limited, {
        DATA_DIR,
        PORT: '0',
        LOG_LEVEL: 'silent',
      })
      t.equal(await failed.ended, 1, `${args.at(-1)}, ${bytes}`)
      t.match(
        failed.stderr(),
        /^(DATA_DIR|error): \/.*\/commit-status\.db: SQLite: SQLITE_(FULL|IOERR\w*): the disk .*\n$/,
      )
      t.equal(failed.stderr().trim().split('\n').length, 1, 'one line')
    }
  }
})

t.test('the server and commands that need git refuse to start with a git without core.fsync', async (t) => {
  const { dataDir: folder } = await sqlite.create(t)
  writeFileSync(join(folder, 'git'), '#!/bin/sh\necho git version 2.35.9\n', { mode: 0o755 })
  const environment = { PATH: folder, PORT: '0', LOG_LEVEL: 'silent', DATA_DIR: folder }
  const refused = startProcess(t, process.execPath, ['src/server.ts'], environment)
  const outcomes = new Map([
    ['server', { code: await refused.ended, stdout: refused.stdout(), stderr: refused.stderr() }],
  ])
  const { PATH } = process.env
  t.teardown(() => {
    process.env.PATH = PATH
  })
  process.env.PATH = folder
  for (const command of ['repo create acme/rocket', `repo import acme/rocket ${folder}`, 'check'])
    outcomes.set(command, await runCli(command.split(' '), environment))
  for (const [name, { code, stdout, stderr }] of outcomes) {
    t.equal(code, 1, name)
    t.match(stderr, /^(error: )?git 2\.35\.9 is too old: .* Install git 2\.36 or later\.\n$/)
    t.equal(stdout, '')
  }
})

t.test('an older Node.js gets a message with the required version', async (t) => {
  for (const [version, entry] of [
    ['22.18.0', 'src/server.ts'],
    ['24.6.0', 'src/cli/main.ts'],
  ] as const) {
    const versions = JSON.stringify({ ...process.versions, node: version })
    const pretend = `Object.defineProperty(process, 'versions', { value: ${versions} })`
    const preload = `data:text/javascript,${encodeURIComponent(pretend)}`
    const old = startProcess(t, process.execPath, ['--import', preload, entry], {
      DATA_DIR: '/nonexistent',
    })
    t.equal(await old.ended, 1, `${entry} on ${version}`)
    t.equal(old.stdout(), '')
    t.match(
      old.stderr(),
      new RegExp(`^commit-status-server needs Node\\.js 24\\.7 or later; this is ${version}\\. `),
    )
    t.equal(old.stderr().trim().split('\n').length, 1, 'one line')
  }
})

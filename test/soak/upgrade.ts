import assert from 'node:assert/strict'
import { execFile, execFileSync } from 'node:child_process'
import { cpSync, globSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import tap, { type Test } from 'tap'
import { installCommit } from '../bench/checkout.ts'
import { databaseUrl, execute, temporaryFolder } from '../helpers/databases.ts'
import { createCommits } from '../helpers/git.ts'
import { csrfOf, openPageClient } from '../helpers/page-client.ts'
import { startPostgres } from '../helpers/postgres-server.ts'
import { minimalEnvironment, startProcess, type TestProcess } from '../helpers/process.ts'
import { callerOf, type TestServer } from '../helpers/server.ts'
import { packServer } from './parts/installed.ts'
import { startLoad } from './parts/load.ts'

/**
 * Upgrades installed packages as the operator's guide says, under load: two instances are replaced
 * one after the other or, from versions before 0.4.0, stopped first. Then goes back by the backup
 * from before, and forward by restoring it.
 */

/**
 * Commits of version 0.1.0, with its first schema and with that of the audit log and branch rules, of
 * version 0.3.0, and of version 0.4.0, whose servers may run beside newer ones.
 */
const FIRST = '6871c95'
const BESIDE = '42cfb45a'
const OLDER = [FIRST, 'cef84fa', '206a0ce7', BESIDE]
/** An address from which nothing else comes. */
const BLOCKED = '192.0.2.9'
const WRITERS = 4
const COMMITS = 20
/** Milliseconds of load between two steps, and between two reports of a writer. */
const [LOAD, PAUSE] = [3_000, 20]

const run = promisify(execFile)
const folder = realpathSync(temporaryFolder(tap))
tap.setTimeout(3_600_000)

/** Has npm install a package into an empty folder. @returns the folder of its programs */
async function install(name: string, tarball: string): Promise<string> {
  const prefix = join(folder, name)
  const options = ['--global', '--prefix', prefix, '--prefer-offline', '--no-audit', '--no-fund', '--silent']
  await run('npm', ['install', ...options, tarball])
  return join(prefix, 'bin')
}

/** Packs a commit as its own scripts do, and installs that. */
async function installOlder(commit: string): Promise<string> {
  const checkout = installCommit(commit)
  try {
    const { scripts, version } = JSON.parse(readFileSync(join(checkout.folder, 'package.json'), 'utf8'))
    const command = scripts.package ? ['run', '--silent', 'package'] : ['pack', '--silent']
    execFileSync('npm', command, { cwd: checkout.folder, stdio: ['ignore', 'ignore', 'inherit'] })
    const [tarball] = globSync(`{dist/,}commit-status-server-${version}{,-linux-${process.arch}}.tgz`, {
      cwd: checkout.folder,
    })
    return await install(commit, join(checkout.folder, tarball ?? assert.fail()))
  } finally {
    checkout.remove()
  }
}

/** Where a service keeps its data. */
interface Place {
  DATA_DIR: string
  DATABASE_URL?: string
}

/** A running instance. */
interface Instance extends Pick<TestServer, 'report' | 'read' | 'url'> {
  process: TestProcess
}

function environmentOf(place: Place): NodeJS.ProcessEnv {
  // The first packages need the Node.js of the system.
  const PATH = `${dirname(process.execPath)}:${process.env.PATH}`
  const limits = { TRUSTED_PROXIES: '127.0.0.1', AUTH_FAILURE_LIMIT: '1' }
  return { ...minimalEnvironment(), PATH, PORT: '0', LOG_LEVEL: 'error', ...limits, ...place }
}

async function admin(bin: string, place: Place, ...args: string[]) {
  const done = run(join(bin, 'commit-status-admin'), args, { env: environmentOf(place) })
  return done.then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }) => ({ code, stdout, stderr }),
  )
}

async function start(t: Test, bin: string, place: Place): Promise<Instance> {
  const server = startProcess(t, join(bin, 'commit-status-server'), [], environmentOf(place))
  const [, url = ''] = await server.printed(/^Listening on (http:.+)$/m)
  return { process: server, url, ...callerOf(url) }
}

async function stop(t: Test, { process }: Instance): Promise<void> {
  process.child.kill('SIGTERM')
  t.equal(await process.ended, 0, process.stderr())
}

/**
 * Has an instance block an address by a wrong password of `acme`, which is an event about that
 * user.
 */
async function blockAddress({ url }: Instance): Promise<void> {
  const { send, get } = openPageClient(url)
  const headers = { 'x-forwarded-for': BLOCKED }
  const { body } = await get('/login', { headers })
  await send('POST', '/login', {
    headers,
    form: { csrf: csrfOf(body), name: 'acme', password: 'wrong', next: '/' },
  })
}

/**
 * Deletes a repository by the new version, which an older instance has just served, and creates the
 * next one of its name. For the older one, too, the first is gone.
 */
async function deleteBeside(
  t: Test,
  older: Instance,
  token: string,
  done: (...args: string[]) => Promise<string>,
) {
  const create = async () => createCommits(await done('repo', 'create', 'acme/gone'), 1)
  const [sha = ''] = await create()
  const report = async (commit: string) => {
    const { status } = await older.report('acme/gone', commit, { state: 'success' }, token)
    return status
  }
  t.equal(await report(sha), 201)
  await done('rule', 'set', 'acme/gone', 'main', '--require', 'ci')
  await done('repo', 'delete', 'acme/gone')
  t.same([await report(sha), (await older.read('acme/gone', sha, token)).status], [404, 404], 'is gone')
  const [next = ''] = await create()
  const { json } = await older.read('acme/gone', next, token)
  t.same([json.statuses, await report(next)], [[], 201], 'and the next one of the name is another one')
  await done('repo', 'delete', 'acme/gone')
  t.equal(await report(next), 404)
}

/**
 * Reports on commits through all instances until it is stopped; an instance may be replaced
 * meanwhile.
 */
function reportThrough(name: string, instances: Instance[], commits: string[], token: string) {
  /** The latest acknowledged number by commit and context. */
  const acknowledged = new Map<string, number>()
  const load = startLoad(WRITERS, async (worker, index) => {
    const sha = commits[index % commits.length] ?? ''
    const context = `${name} ${worker}`
    const body = { state: 'success', context, description: `${index}` }
    const instance = instances[index % instances.length]
    assert(instance)
    await setTimeout(PAUSE)
    const { status } = await instance.report('acme/rocket', sha, body, token)
    if (status === 201) acknowledged.set(`${sha} ${context}`, index)
    return status
  })
  return { acknowledged, ...load }
}

/** Expects that each commit has what was acknowledged, or what was reported later. */
async function expectReports(t: Test, instance: Instance, expected: Map<string, number>, token: string) {
  const lost: string[] = []
  for (const sha of new Set([...expected.keys()].map((key) => key.split(' ', 1)[0] ?? ''))) {
    const { json } = await instance.read('acme/rocket', sha, token)
    const stored = new Map(json.statuses?.map((row) => [`${sha} ${row.context}`, Number(row.description)]))
    for (const [key, index] of expected)
      if (key.startsWith(sha) && !((stored.get(key) ?? -1) >= index)) lost.push(`${key}: ${index}`)
  }
  t.same(lost, [], `${expected.size} acknowledged reports are there`)
}

const postgres = await startPostgres()
tap.teardown(() => postgres.stop())
const here = await install('new', packServer())
let databases = 0

/** Returns a place without a database. */
async function createPlace(kind: string): Promise<Place> {
  const name = `place${databases++}`
  const DATA_DIR = join(folder, name)
  if (kind === 'SQLite') return { DATA_DIR }
  await execute(postgres.url, `create database ${name}`)
  return { DATA_DIR, DATABASE_URL: databaseUrl(postgres.url, name) }
}

for (const commit of OLDER) {
  const older = await installOlder(commit)
  for (const kind of ['SQLite', 'PostgreSQL']) {
    tap.test(`${kind}: from ${commit} and back`, async (t) => {
      const place = await createPlace(kind)
      const done = async (bin: string, where: Place, ...args: string[]) => {
        const outcome = await admin(bin, where, ...args)
        t.equal(outcome.code, 0, `${args.join(' ')} ${outcome.stderr}`)
        return outcome.stdout.trim()
      }
      await done(older, place, 'user', 'create', 'acme')
      const path = await done(older, place, 'repo', 'create', 'acme/rocket')
      const token = await done(older, place, 'token', 'create', 'acme')
      const commits = createCommits(path, COMMITS)
      const instances = [await start(t, older, place), await start(t, older, place)]
      const load = reportThrough('before', instances, commits, token)
      await setTimeout(LOAD)

      const backedUp = new Map(load.acknowledged)
      const backup = `${place.DATA_DIR}.backup`
      await done(older, place, 'backup', backup)
      const copy = `${backup}.repositories`
      cpSync(join(place.DATA_DIR, 'repositories'), copy, { recursive: true })

      for (const args of [
        ['user', 'list'],
        ['token', 'list', 'acme'],
        ['check'],
        ['backup', `${backup}.new`],
      ])
        t.match(
          await admin(here, place, ...args),
          { code: 1, stderr: /is that of an older version/ },
          `${args}`,
        )
      await setTimeout(LOAD)
      if (commit !== BESIDE) for (const instance of instances) await stop(t, instance)
      for (const [index, instance] of instances.entries()) {
        if (commit === BESIDE) await stop(t, instance)
        instances[index] = await start(t, here, place)
        await setTimeout(LOAD)
        const old = instances[index + 1]
        if (!old || commit !== BESIDE) continue
        await blockAddress(old)
        await deleteBeside(t, old, token, (...args) => done(here, place, ...args))
      }
      await load.stop()
      t.comment(`${kind} from ${commit}: ${JSON.stringify(load.answers)}`)
      const others = Object.keys(load.answers).filter((name) => !/^(201|503|connection lost)$/.test(name))
      t.same(others, [], 'nothing else is answered')
      for (const instance of instances) await expectReports(t, instance, load.acknowledged, token)
      await done(here, place, 'user', 'list')
      const events = JSON.parse(await done(here, place, 'audit', 'list', '--user', 'ACME', '--json'))
      const besides = { action: 'address.blocked', actor: 'anonymous', user: 'acme', subject: 'acme' }
      const earlier = { action: 'token.created', actor: 'administrator', user: 'acme', subject: 'acme' }
      if (commit !== FIRST) t.match(events[1], earlier, 'events of the old version have subjects')
      if (commit === BESIDE) t.match(events.at(-1), besides, 'also those of a server beside the new one')
      await done(here, place, 'check', '--full', '--commits')
      for (const instance of instances) await stop(t, instance)

      // Back, beside the repositories as they are now, and forward by the same backup on another
      // machine.
      const back = kind === 'SQLite' ? place : { ...(await createPlace(kind)), DATA_DIR: place.DATA_DIR }
      if (kind === 'SQLite') {
        const file = join(place.DATA_DIR, 'commit-status.db')
        for (const end of ['', '-wal', '-shm']) rmSync(`${file}${end}`, { force: end !== '' })
      }
      const other = await createPlace(kind)
      cpSync(copy, join(other.DATA_DIR, 'repositories'), { recursive: true })
      for (const [bin, where] of [
        [older, back],
        [here, other],
      ] as const) {
        await done(bin, where, 'restore', backup)
        const pair = [await start(t, bin, where), await start(t, bin, where)]
        const again = reportThrough('after', pair, commits, token)
        await setTimeout(LOAD)
        await again.stop()
        t.same(Object.keys(again.answers), ['201'])
        for (const [key, index] of backedUp)
          if (!again.acknowledged.has(key)) again.acknowledged.set(key, index)
        for (const instance of pair) await expectReports(t, instance, again.acknowledged, token)
        await done(bin, where, 'check', '--commits')
        for (const instance of pair) await stop(t, instance)
      }
    })
  }
}

import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Sqlite from 'better-sqlite3'
import type { AuditEvent } from '../../src/store/audit/audit.ts'
import { recordEvents } from '../../src/store/audit/event-rows.ts'
import { openStore, type StoreOptions } from '../../src/store/store.ts'
import { packet, pushBody } from '../git-http/raw.ts'
import { execute } from '../helpers/databases.ts'
import { git, gitWith } from '../helpers/git.ts'
import type { Bench } from './everything.ts'
import { type LoadRequest, UNIQUE } from './load.ts'
import { putLoad } from './load-generator.ts'
import { databaseClock, type ServerProcess, startProcess } from './processes.ts'
import { authorized, read, report } from './requests.ts'
import { ourCommand, type Served, serve } from './servers.ts'

/** Prepared pushes of one commit with one new file each. */
const PUSHES = 600
const FILE = 1_000
/** Requests to git at a time. */
const AT_ONCE = 8
const EVENTS = 10_000
/** Of `stat.blocks`. */
const BLOCK = 512
const MIB = 1024 ** 2

/** Operations per second, and milliseconds of processor time for each. */
interface Figure {
  name: string
  rate: number
  server: number
  git: number
  database: number
}

type Sizing = Pick<Bench, 'size' | 'seconds' | 'postgres' | 'onError'>

/**
 * Measures what one server carries and stores on each database, and what two of them carry on
 * PostgreSQL. Returns the tables of the operator's guide.
 */
export async function measureSizing({ size, seconds, postgres, onError }: Sizing): Promise<string> {
  const figures: Figure[] = []
  const stored: string[] = []
  const pushes = createPushes()
  for (const [database, url] of [['SQLite'], ['PostgreSQL', postgres]] as const) {
    const served = await serve(size, url)
    try {
      const measured = await measureOn(database, served, { pushes, seconds, url, onError })
      figures.push(...measured.figures)
      const bytes = await bytesPerEvent(served.fixture.options)
      const cells = [served.fixture.bytesPerStatus, bytes, measured.bytesPerPush].map(Math.round)
      stored.push(
        `| ${[database, ...cells, `${Math.round(served.server.memory() / MIB)} MiB`].join(' | ')} |`,
      )
    } finally {
      await served.remove()
    }
  }
  const rows = figures.map(({ name, rate, server, git, database }) => {
    const times = [server, git, database].map((time) => (time < 0.005 ? '' : time.toFixed(2)))
    return `| ${[name, Math.round(rate), ...times].join(' | ')} |`
  })
  return [
    '| | per second | server ms | git ms | PostgreSQL ms |',
    '| --- | --- | --- | --- | --- |',
    ...rows,
    '',
    '| | bytes per status | per event of a push | of the repository per push | memory afterwards |',
    '| --- | --- | --- | --- | --- |',
    ...stored,
    '',
  ].join('\n')
}

/** How many operations were done, and how many per second. */
interface Done {
  count: number
  rate: number
}

interface Place {
  pushes: readonly Buffer[]
  seconds: number
  /** URL of the PostgreSQL server. */
  url: string | undefined
  onError(text: string): void
}

async function measureOn(database: string, { fixture, server }: Served, place: Place) {
  const { pushes, seconds, url, onError } = place
  const { sized, stored, reported, tokens, options } = fixture
  const databaseCpu = url === undefined ? () => 0 : await databaseClock(url)

  const measure = async (name: string, servers: ServerProcess[], load: () => Promise<Done>) => {
    const times = () => ({
      server: sum(servers.map((each) => each.cpu())),
      git: sum(servers.map((each) => each.childrenCpu())),
      database: databaseCpu(),
    })
    const before = times()
    const { count, rate } = await load()
    const after = times()
    const each = (key: keyof typeof before) => (after[key] - before[key]) / 1000 / count
    return { name, rate, server: each('server'), git: each('git'), database: each('database') }
  }
  const send = (requests: LoadRequest[], servers: ServerProcess[], wanted: number) => async () => {
    const loads = servers.map(({ url }) => putLoad({ url, connections: 32, seconds, requests }))
    const done: Done = { count: 0, rate: 0 }
    for (const { rate, errors, statuses } of await Promise.all(loads)) {
      done.count += statuses[wanted] ?? 0
      done.rate += rate
      const isClean = errors === 0 && Object.keys(statuses).length === 1
      if (!isClean) onError(`${database}: ${errors} errors, answers ${JSON.stringify(statuses)}`)
    }
    return done
  }
  const reads = [read('public', sized.get(10))]
  const reports = reported.map((sha) => report('reports', sha, tokens[0], { context: `ci/${UNIQUE}` }))
  const figures: Figure[] = []
  const apiFigure = async (name: string, requests: LoadRequest[], wanted: number, servers = [server]) => {
    const load = send(requests, servers, wanted)
    // For the JIT compiler.
    await load()
    figures.push(await measure(`${database}: ${name}`, servers, load))
  }
  await apiFigure('reads of 10 contexts', reads, 200)
  await apiFigure('reports', reports, 201)

  const repository = join(options.dataDir, 'repositories', `${fixture.repositories.reports}.git`)
  const waiting = pushes.values()
  const gitUrl = (name: string) => `${server.url}/alice/${name}.git`
  const push = async () => {
    const body = waiting.next().value
    if (!body) return false
    await exchange(gitUrl('reports'), 'git-receive-pack', body, tokens[0])
    return true
  }
  const before = diskUsage(repository)
  figures.push(await measure(`${database}: pushes`, [server], () => repeat(push, seconds)))
  const pushed = Number(git(repository, 'for-each-ref', '--format=1', 'refs/heads/').match(/1/g)?.length)
  const bytesPerPush = (diskUsage(repository) - before) / pushed
  const want = `${packet(`want ${stored[0]} ofs-delta side-band-64k no-progress\n`)}0000${packet('done\n')}`
  const clone = async () => {
    await exchange(gitUrl('public'), 'git-upload-pack', Buffer.from(want), tokens[0])
    return true
  }
  figures.push(await measure(`${database}: clones`, [server], () => repeat(clone, seconds)))

  if (url !== undefined) {
    const { args, env } = ourCommand(fixture)
    const second = await startProcess(args, env)
    try {
      await apiFigure('reads of 10 contexts, 2 instances', reads, 200, [server, second])
      await apiFigure('reports, 2 instances', reports, 201, [server, second])
    } finally {
      await second.stop()
    }
  }
  return { figures, bytesPerPush }
}

/** Has some clients do work, each one time after the other, until it returns false. */
async function repeat(work: () => Promise<boolean>, seconds: number): Promise<Done> {
  const began = performance.now()
  const end = began + seconds * 1000
  let count = 0
  const client = async () => {
    while (performance.now() < end && (await work())) count++
  }
  await Promise.all(Array.from({ length: AT_ONCE }, client))
  return { count, rate: count / ((performance.now() - began) / 1000) }
}

/** Asks for the list of refs, and then sends a request, as git does. */
async function exchange(url: string, service: string, body: Buffer, token = ''): Promise<void> {
  const headers = authorized(token)
  const refs = await fetch(`${url}/info/refs?service=${service}`, { headers })
  await refs.arrayBuffer()
  const type = { 'content-type': `application/x-${service}-request` }
  const options = { method: 'POST', headers: { ...headers, ...type }, body: new Uint8Array(body) }
  const answer = await fetch(`${url}/${service}`, options)
  const content = Buffer.from(await answer.arrayBuffer())
  if (!answer.ok || content.includes('ng refs')) throw new Error(`${service}: ${answer.status} ${content}`)
}

/** Returns the bodies of pushes. */
function createPushes(): Buffer[] {
  const folder = mkdtempSync(join(tmpdir(), 'bench-packs-'))
  try {
    git(folder, 'init', '--quiet', '--bare')
    const commits = Array.from({ length: PUSHES }, (_, index) => {
      const content = randomBytes(FILE / 2).toString('hex')
      const head = `commit refs/heads/topic-${index}\ncommitter A <a@example.org> 1700000000 +0000\ndata 5\nfirst\n`
      return `${head}M 100644 inline file\ndata ${FILE}\n${content}\n`
    })
    gitWith(folder, commits.join(''), 'fast-import', '--quiet')
    const refs = git(folder, 'for-each-ref', '--format=%(objectname) %(refname)').split('\n')
    return refs.map((line) => {
      const [sha = '', ref = ''] = line.split(' ')
      const pack = spawnSync('git', ['-C', folder, 'pack-objects', '--stdout', '--revs', '--quiet'], {
        input: `${sha}\n`,
      }).stdout
      return pushBody([`${'0'.repeat(40)} ${sha} ${ref}`], 'report-status', pack)
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Returns the size of the events of pushes of one ref, with their indexes. */
async function bytesPerEvent(options: StoreOptions): Promise<number> {
  const store = await openStore(options)
  try {
    const user = { id: 1, name: 'alice' }
    const before = await tableSize(options)
    await store.engine.kysely.transaction().execute(async (db) => {
      for (let index = 0; index < EVENTS; index++) {
        const update = { ref: `refs/heads/topic-${index}`, old: '0'.repeat(40), new: randomId() }
        const token = { id: randomId(), name: 'CI of rocket' }
        const event: AuditEvent = {
          action: 'push',
          repository: { id: 1, name: 'alice/rocket' },
          details: { updates: [update] },
        }
        await recordEvents(db, { kind: 'user', user, address: '192.0.2.1', token }, [event])
      }
    })
    return ((await tableSize(options)) - before) / EVENTS
  } finally {
    await store.close()
  }
}

async function tableSize({ dataDir, databaseUrl }: StoreOptions): Promise<number> {
  if (databaseUrl) {
    const [row] = await execute(databaseUrl, `select pg_total_relation_size('audit_events') as bytes`)
    return Number(row?.bytes)
  }
  const db = new Sqlite(join(dataDir, 'commit-status.db'), { readonly: true })
  try {
    const pages = `select sum(pgsize) from dbstat where name like 'audit_events%' and aggregate = true`
    return Number(db.prepare(pages).pluck().get())
  } finally {
    db.close()
  }
}

const randomId = () => randomBytes(20).toString('hex')
const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 0)

/** Returns the bytes that the blocks of a folder's files and folders take. */
function diskUsage(folder: string): number {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return sum(paths.map((path) => lstatSync(join(folder, path)).blocks * BLOCK))
}

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { createBareRepository } from '../../src/git/repository.ts'
import { openStore } from '../../src/store/store.ts'
import { git, importCommits } from '../helpers/git.ts'
import { type Instance, startInstance } from '../helpers/instance.ts'
import { KeepAliveClient, requestBytes } from '../helpers/keep-alive.ts'
import { fillLargeRepository } from '../helpers/large-repository.ts'
import { longestStretch, measured } from '../helpers/loop-stretch.ts'

/**
 * Measures reads of the API, and pages of a user, while 50 loops of another address ask for pages as fast as they
 * can. The exit code is 1 when a request fails, when 1 % of the reads take longer than 20 ms and than three times
 * what they take in the same run without the loops (on a busy machine they are slow anyway), or when the server blocks its
 * event loop for 250 ms of processor time. Reads beside pages of the longest texts may take as long as two such pages.
 */
const LOOPS = 50
const SECONDS = 6
const MAX_P99 = 20
const MAX_STRETCH = 250
const LONGEST = 'a commit with the longest texts'
const READER = '127.0.0.2'
const REPOSITORIES = 200
const CONTEXTS = 1_000
const COMMITS = 30
const LARGE = { commits: 100_000, branches: 2_000 }

const folder = mkdtempSync(join(tmpdir(), 'soak-pages-'))
const ends: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })]
const print = (line: string) => process.stdout.write(`${line}\n`)

/** The attack, in a process of its own: prints what came of it when its standard input ends. */
async function loop(url: string, paths: string[]): Promise<void> {
  const requests = paths.map((path) => requestBytes('GET', path))
  const statuses: Record<string, number> = {}
  let stopped = false
  let bytes = 0
  process.stdin.resume().on('end', () => {
    stopped = true
  })
  const clients = Array.from({ length: LOOPS }, async (_, index) => {
    const client = await KeepAliveClient.open(url)
    for (let turn = index; !stopped; turn++) {
      const answer = await client.send(requests[turn % requests.length] ?? Buffer.alloc(0))
      statuses[answer.status] = (statuses[answer.status] ?? 0) + 1
      bytes += answer.bytes
    }
    client.close()
  })
  await Promise.all(clients)
  process.stdout.write(`answers to the loops ${JSON.stringify(statuses)}, ${Math.round(bytes / 1e6)} MB`)
}

function startLoops(url: string, paths: string[]): () => Promise<string> {
  const args = [join(import.meta.dirname, 'run.ts'), 'pages', 'loop', url, ...paths]
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  return async () => {
    child.stdin.end()
    await once(child, 'close')
    return output
  }
}

interface Figures {
  p50: number
  p99: number
  worst: number
  count: number
}

/** Sends one request after the other, with a pause in milliseconds between, until the signal aborts. */
async function ask(url: string, path: string, pause: number, signal: AbortSignal): Promise<Figures> {
  const client = await KeepAliveClient.open(url, READER)
  const request = requestBytes('GET', path)
  const times: number[] = []
  while (!signal.aborted) {
    const { status, time } = await client.send(request)
    assert.equal(status, 200)
    times.push(time)
    await setTimeout(pause)
  }
  client.close()
  times.sort((a, b) => a - b)
  const at = (share: number) => times[Math.floor(share * times.length)] ?? Number.NaN
  return { p50: at(0.5), p99: at(0.99), worst: times.at(-1) ?? Number.NaN, count: times.length }
}

/** @returns milliseconds that all but 1 % of the reads of the API take at most, and that the event loop was blocked */
async function measure(
  instance: Instance,
  name: string,
  page: string,
  read: string,
  attack: string[],
): Promise<{ p99: number; stretch: number }> {
  const { url } = instance
  const stop = attack.length > 0 ? startLoops(url, attack) : undefined
  // For the compilers of both sides.
  if (stop) await setTimeout(1_500)
  const signal = AbortSignal.timeout(SECONDS * 1_000)
  const [reads, pages] = await Promise.all([ask(url, read, 3, signal), ask(url, page, 100, signal)])
  print(name)
  for (const [what, { p50, p99, worst, count }] of Object.entries({ reads, pages }))
    print(`  ${count} ${what}: p50 ${p50.toFixed(1)}, p99 ${p99.toFixed(1)}, worst ${worst.toFixed(1)} ms`)
  if (stop) print(`  ${await stop()}`)
  const stretch = await longestStretch(instance)
  print(`  the event loop was blocked for ${stretch} ms at most`)
  return { p99: reads.p99, stretch }
}

/** Commits on the branch `main`. */
function commit(path: string, count: number, defaultMessage?: (index: number) => string): string[] {
  const commits = importCommits(path, count, defaultMessage)
  git(path, 'update-ref', 'refs/heads/main', commits.at(-1) ?? '')
  return commits
}

async function prepare() {
  const store = await openStore({ dataDir: folder })
  const create = (name: string) =>
    store.repositories.create({ owner: 'acme', name, visibility: 'public', objectFormat: 'sha1' }, (place) =>
      createBareRepository(place, 'sha1'),
    )
  const report = async (repositoryId: number, sha: string, contexts: number, description: string) => {
    const target_url = `https://ci.example.org/?${'&'.repeat(2 * description.length)}`.slice(0, 2_048)
    const status = { repositoryId, sha, state: 'success', description, target_url } as const
    const reports = Array.from({ length: contexts }, (_, index) =>
      store.statuses.report({ ...status, context: `ci/check-${index}` }),
    )
    await Promise.all(reports)
  }
  const few = await create('few')
  const commits = commit(few.path, COMMITS)
  for (const sha of commits) await report(few.id, sha, 10, '412 tests passed')
  const ordinary = await create('ordinary')
  const [usual = ''] = commit(ordinary.path, 1)
  await report(
    ordinary.id,
    usual,
    CONTEXTS,
    '412 tests passed in 3 min 12 s; 93.4 % of the lines are covered',
  )
  const many = await create('many')
  const all = commit(many.path, COMMITS)
  for (const sha of all) await report(many.id, sha, CONTEXTS, '\u202e'.repeat(1_024))
  const long = await create('long')
  commit(long.path, COMMITS, () => '&'.repeat(500_000))
  const large = await create('large')
  const history = await fillLargeRepository(large.path, LARGE.commits, LARGE.branches)
  for (const sha of history.slice(0, COMMITS)) await report(large.id, sha, 10, '412 tests passed')
  const others = Array.from({ length: REPOSITORIES }, (_, index) => `other-${index}`)
  for (const name of others) commit((await create(name)).path, 3)
  await store.close()
  return {
    read: `/api/v1/repos/acme/few/commits/${commits[0]}/statuses`,
    page: '/acme/few',
    attacks: {
      'a repository': ['/acme/few'],
      [`${REPOSITORIES} repositories`]: others.map((name) => `/acme/${name}`),
      'the list of repositories': ['/', '/?after=acme/other-150'],
      [`a repository with ${LARGE.commits} commits and ${LARGE.branches} branches`]: [
        ...[
          '/acme/large',
          '/acme/large?ref=team-3/topic-1983',
          '/acme/large?ref=none',
          '/acme/large/badge.svg',
        ],
      ],
      'its old commits': Array.from(
        { length: 500 },
        (_, index) => `/acme/large?after=${history[LARGE.commits - 1 - 100 * index]}`,
      ),
      [`a commit with ${CONTEXTS} contexts`]: [`/acme/ordinary/commits/${usual}`],
      [LONGEST]: [`/acme/many/commits/${all[0]}`],
      [`${COMMITS} commits with ${CONTEXTS} contexts each`]: ['/acme/many'],
      [`${COMMITS} commits with subjects of 500,000 characters`]: ['/acme/long'],
    },
  }
}

async function measureAll(): Promise<void> {
  const { read, page, attacks } = await prepare()
  const teardown = (end: () => unknown) => void ends.unshift(end)
  const instance = await startInstance({ teardown }, { dataDir: folder }, {}, measured)
  const idle = [await measure(instance, 'nobody else', page, read, [])]
  const loaded: (typeof idle)[number][] = []
  for (const [name, paths] of Object.entries(attacks)) {
    const figures = await measure(instance, name, page, read, paths)
    if (name !== LONGEST) loaded.push(figures)
    else if (figures.stretch > MAX_STRETCH || figures.p99 > 2 * MAX_STRETCH) process.exitCode = 1
  }
  idle.push(await measure(instance, 'nobody else', page, read, []))
  const [, peak] = /^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${instance.child.pid}/status`, 'utf8')) ?? []
  print(`the server's memory at its peak: ${Math.round(Number(peak) / 1024)} MiB`)
  const slowest = (figures: typeof idle) => Math.max(...figures.map(({ p99 }) => p99))
  if (slowest(loaded) > Math.max(MAX_P99, 3 * slowest(idle))) process.exitCode = 1
  if (loaded.some(({ stretch }) => stretch > MAX_STRETCH)) process.exitCode = 1
}

const [, , , mode, url = '', ...paths] = process.argv
try {
  if (mode === 'loop') await loop(url, paths)
  else await measureAll()
} finally {
  for (const end of ends) await end()
}

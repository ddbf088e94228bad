import { setTimeout } from 'node:timers/promises'
import tap, { type Test } from 'tap'
import { git, importCommits } from '../helpers/git.ts'
import { type Instance, startInstance } from '../helpers/instance.ts'
import { requestBytes } from '../helpers/keep-alive.ts'
import { fillLargeRepository } from '../helpers/large-repository.ts'
import { longestStretch, measured } from '../helpers/loop-stretch.ts'
import { memoryOf } from '../helpers/process.ts'
import { startServer } from '../helpers/server.ts'
import { during, type Loop } from './parts/attack.ts'
import { quantileOf, type Tally, tableOf } from './parts/figures.ts'
import { whileReading } from './parts/readers.ts'

/**
 * Measures reads of the API, and pages of a user, while 50 loops of another address ask for pages
 * as fast as they can, and of five addresses for those of one repository. Fails when a request
 * fails, when 1 % of the reads take longer than 20 ms and than three times what they take in the
 * same run without the loops (on a busy machine they are slow anyway), or when the server blocks
 * its event loop for 250 ms of processor time. Reads beside pages of the longest texts may take as
 * long as two such pages.
 */
const LOOPS = 50
const SECONDS = Number(process.env.SOAK_SECONDS ?? 6)
const MAX_P99 = 20
const MAX_STRETCH = 250
const LONGEST = 'a commit with the longest texts'
/** Of the attackers. */
const ADDRESSES = [2, 3, 4, 5, 6].map((last) => `127.0.0.${last}`)
const REPOSITORIES = 200
const CONTEXTS = 1_000
const COMMITS = 30
const LARGE = { commits: 100_000, branches: 2_000 }

tap.setTimeout(1_800_000)

/**
 * @returns how the reads of the API and the pages of a user fared, and milliseconds that the event
 * loop was blocked
 */
async function measure(instance: Instance, page: string, read: string, attack: string[]) {
  const { url } = instance
  const requests = attack.map((path) => requestBytes('GET', path).toString())
  const loops: Loop = {
    kind: 'loop',
    url,
    addresses: ADDRESSES,
    connections: LOOPS,
    seconds: 3_600,
    requests,
  }
  let pages: Tally | undefined
  const reads = await during(attack.length > 0 ? [loops] : [], async () => {
    // For the compilers of both sides.
    if (attack.length > 0) await setTimeout(1_500)
    const visit = async () => {
      pages = await whileReading(url + page, () => setTimeout(SECONDS * 1_000), 100)
    }
    return whileReading(url + read, visit, 3)
  })
  return { reads, pages, stretch: await longestStretch(instance) }
}

/** Commits on the branch `main`. */
function commit(path: string, count: number, defaultMessage?: (index: number) => string): string[] {
  const commits = importCommits(path, count, defaultMessage)
  git(path, 'update-ref', 'refs/heads/main', commits.at(-1) ?? '')
  return commits
}

async function prepare(t: Test) {
  const { store, options, createRepository } = await startServer(t)
  const create = (name: string) => createRepository(`acme/${name}`, { commits: 0 })
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
  return {
    options,
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

tap.test('reads of others beside many pages', async (t) => {
  const { options, read, page, attacks } = await prepare(t)
  const instance = await startInstance(t, options, {}, measured)
  const idle = [(await measure(instance, page, read, [])).reads]
  const loaded: { name: string; reads: Tally; stretch: number }[] = []
  for (const [name, paths] of Object.entries(attacks)) {
    const { reads, pages, stretch } = await measure(instance, page, read, paths)
    t.equal(pages?.failures.length, 0, `${name}: no page of a user fails`)
    loaded.push({ name, reads, stretch })
    const shown = { [`reads beside ${name}`]: reads, 'pages of a user': pages }
    for (const [name, tally] of Object.entries(shown))
      if (tally) t.comment(`\n${tableOf([{ name, ...tally }])}`)
    t.comment(`the event loop was blocked for ${stretch} ms at most`)
  }
  idle.push((await measure(instance, page, read, [])).reads)
  t.comment(`the server's memory at its peak: ${memoryOf(instance.child.pid, 'VmHWM')} MiB`)
  const slowest = Math.max(...idle.map(({ latencies }) => quantileOf(latencies, 0.99)))
  for (const { name, reads, stretch } of loaded) {
    const limit = name === LONGEST ? 2 * MAX_STRETCH : Math.max(MAX_P99, Math.ceil(3 * slowest))
    const { promise } = reads.promise(name, 0.99, limit)
    t.ok(promise?.kept, `reads beside ${name}: ${promise?.text}`)
    t.ok(stretch <= MAX_STRETCH, `${name}: the event loop was blocked for ${stretch} ms`)
  }
})

import type { StatusState } from '../../src/domain/states.ts'
import { openStore } from '../../src/store/store.ts'
import { git } from '../helpers/git.ts'
import { KeepAliveClient, requestBytes } from '../helpers/keep-alive.ts'
import { fillLargeRepository } from '../helpers/large-repository.ts'
import { addRepository } from '../helpers/records.ts'
import { median, type Row, spreadOf } from './row.ts'
import type { Served } from './servers.ts'

const COMMITS = 100_000
const BRANCHES = 2_000
/**
 * Contexts of the newest commits and of the branches; the commits of the tag `many` have `MANY`.
 */
const CONTEXTS = 20
const MANY = 1_000
/** Commits that the page of checks shows. */
const CHECKED = 30
/** Other repositories on the start page. */
const OTHERS = 29
const REQUESTS = 50
/** Milliseconds of a page, at the median. */
const TARGET = 100

/** How the requests for a page are prepared. */
interface Visit {
  name: string
  /** Returns the path of each request. */
  path(index: number): string
  headers?: Record<string, string>
  /** Called before each request, outside of its time. */
  before?(): void
}

/**
 * Times single requests for pages of a repository with 100,000 commits and 2,000 branches, one at a
 * time. The server is warm unless the name says what has changed before each request.
 */
export async function measurePages(
  { fixture, server }: Served,
  database: string,
  onError: (text: string) => void,
): Promise<Row[]> {
  const { path, commits } = await createRepositories(fixture.options)
  const [head = '', second = ''] = commits
  let pushed = 0
  const push = () => {
    pushed++
    git(path, 'update-ref', 'refs/heads/main', pushed % 2 === 1 ? second : head)
  }
  const visits: Visit[] = [
    { name: '30 repositories', path: () => '/?after=alice/z' },
    { name: 'repository', path: () => '/large/large' },
    { name: 'repository, after a push', path: () => '/large/large', before: push },
    { name: 'repository, a branch', path: () => '/large/large?ref=team-3/topic-1983' },
    {
      name: 'repository, a page of old commits',
      path: (index) => `/large/large?after=${commits[COMMITS - 1_000 * (index + 1)]}`,
    },
    {
      name: `commit with ${MANY.toLocaleString('en')} contexts`,
      path: () => `/large/large/commits/${commits[CHECKED]}`,
    },
    {
      name: `changes of a commit with ${MANY.toLocaleString('en')} contexts`,
      path: () => `/large/large/commits/${commits[CHECKED]}`,
      headers: { 'x-live': '1' },
    },
    { name: 'checks', path: () => '/large/large/checks' },
    {
      name: `checks of commits with ${MANY.toLocaleString('en')} contexts`,
      path: () => '/large/large/checks?ref=many',
    },
    { name: 'badge', path: () => '/large/large/badge.svg' },
  ]
  const client = await KeepAliveClient.open(server.url)
  const rows: Row[] = []
  for (const { name, path, headers, before } of visits) {
    const times: number[] = []
    for (let index = 0; index < REQUESTS; index++) {
      before?.()
      const { status, time } = await client.send(requestBytes('GET', path(index), headers))
      if (status !== 200) onError(`${name}: ${status}`)
      times.push(time)
    }
    const value = median(times)
    rows.push({
      name: `pages, ${database}, ${name}`,
      value,
      unit: 'ms',
      spread: spreadOf(times),
      against: `${TARGET} ms`,
      ratio: value / TARGET,
      target: { atMost: 1 },
    })
  }
  client.close()
  return rows
}

async function createRepositories(options: Served['fixture']['options']) {
  const store = await openStore(options)
  const create = (name: string) => addRepository(store, `large/${name}`, { commits: 0 })
  const report = async (repositoryId: number, sha: string, count: number, state: StatusState) => {
    const reports = Array.from({ length: count }, (_, index) =>
      store.statuses.report({
        repositoryId,
        sha,
        context: `ci/check-${index}`,
        state: index % 5 === 0 ? state : 'success',
        description: `412 tests passed in ${index} s`,
        target_url: `https://ci.example.org/jobs/${index}`,
      }),
    )
    await Promise.all(reports)
  }
  const { id, path } = await create('large')
  const commits = await fillLargeRepository(path, COMMITS, BRANCHES)
  const heads = git(path, 'for-each-ref', '--format=%(objectname)', 'refs/heads').split('\n')
  for (const [index, sha] of [...commits.slice(0, CHECKED), ...heads.slice(0, 200)].entries())
    await report(id, sha, CONTEXTS, index % 2 === 0 ? 'failure' : 'success')
  for (const sha of commits.slice(CHECKED, 2 * CHECKED)) await report(id, sha, MANY, 'failure')
  git(path, 'update-ref', 'refs/tags/many', commits[CHECKED] ?? '')
  for (let index = 0; index < OTHERS; index++) {
    const other = await create(`other-${index}`)
    const [sha = ''] = await fillLargeRepository(other.path, 10, 1)
    await report(other.id, sha, CONTEXTS, 'failure')
  }
  await store.close()
  return { path, commits }
}

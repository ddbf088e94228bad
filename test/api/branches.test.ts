import { existsSync, readFileSync, rmSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { StatusState } from '../../src/domain/states.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, type TestDatabase } from '../helpers/databases.ts'
import { createCommits, git, gitWith, importCommits, importGraph, replaceGit } from '../helpers/git.ts'
import { addReport } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'

const REPO = 'acme/rocket'

async function setUp(t: Test, database: TestDatabase, commits = 1) {
  const server = await startServer(t, { database })
  const repository = await server.createRepository(REPO, { commits })
  const { store } = server
  const call = (path: string, headers: Record<string, string> = {}) =>
    server.call('GET', `/api/v1/repos/${REPO}/${path}`, { headers })
  return {
    server,
    store,
    repository,
    path: repository.path,
    commits: repository.commits,
    lastPassed: (query: string, headers = {}) => call(`last-passed${query}`, headers),
    branches: (query = '', headers = {}) => call(`branches${query}`, headers),
    awaiting: (query: string, headers = {}) => call(`awaiting?${query}`, headers),
    report: (sha: string, context: string, state: StatusState = 'success') =>
      addReport({ store, repositoryId: repository.id, sha }, context, state),
    require: (refPattern: string, ...required: string[]) =>
      asAdministrator(store).rules.set(repository, { refPattern, required, bypass: [] }),
  }
}

/** Creates branches by their names, with one start of git. */
function createBranches(path: string, branches: readonly (readonly [name: string, sha: string])[]): void {
  const lines = branches.map(([name, sha]) => `create refs/heads/${name} ${sha}\n`)
  gitWith(path, lines.join(''), 'update-ref', '--stdin')
}

const NONE = { pending: 0, success: 0, failure: 0, error: 0 }

for (const database of databases) {
  t.test(`${database.name}: the last commit that passed`, async (t) => {
    const { lastPassed, report, require, commits, path } = await setUp(t, database, 3)
    const [first = '', second = '', third = ''] = commits
    t.same(
      [(await lastPassed('?branch=main')).status, (await lastPassed('?branch=main')).json],
      [
        422,
        {
          error:
            'branch: no checks are required for "main"; set a rule that matches it, or name checks with "require"',
        },
      ],
    )
    await report(first, 'ci/build')
    t.match((await lastPassed('?branch=main')).status, 422, 'a report alone makes nothing pass')
    const none = { branch: 'main', commit: null, looked_at: 3, next: null }
    t.same((await lastPassed('?branch=main&require=ci/build&require=lint')).json, none)
    await require('main', 'ci/build')
    const passed = {
      branch: 'main',
      commit: { sha: first, state: 'success', counts: { ...NONE, success: 1 } },
    }
    t.same((await lastPassed('?branch=main')).json, { ...passed, looked_at: 3, next: null })
    t.same((await lastPassed('?branch=refs/heads/main')).json, { ...passed, looked_at: 3, next: null })
    await report(third, 'ci/build', 'pending')
    await report(second, 'ci/build')
    await report(second, 'docs', 'error')
    const newer = { sha: second, state: 'failure', counts: { ...NONE, success: 1, error: 1 } }
    const found = await lastPassed('?branch=main')
    t.same(found.json, { branch: 'main', commit: newer, looked_at: 2, next: null })
    t.equal(found.headers.get('link'), null)
    const etag = found.headers.get('etag') ?? ''
    t.equal((await lastPassed('?branch=main', { 'if-none-match': etag })).status, 304)
    await report(second, 'ci/build', 'failure')
    t.match((await lastPassed('?branch=main', { 'if-none-match': etag })).json, passed)
    t.match((await lastPassed(`?branch=main&after=${second.toUpperCase()}`)).json, {
      ...passed,
      looked_at: 1,
    })
    await require('m*', 'lint')
    t.same((await lastPassed('?branch=main')).json, none, 'a new rule counts for old commits')
    await report(third, 'ci/build')
    await report(third, 'lint')
    t.match((await lastPassed('?branch=main')).json, { commit: { sha: third }, looked_at: 1 })

    createCommits(path, 1)
    const gone = await lastPassed(`?branch=main&after=${third}`)
    t.same(
      [gone.status, gone.json.error],
      [404, `after: "main" is not known to have been at ${third}. Begin again without it.`],
    )
    t.match((await lastPassed('?branch=main')).json, { commit: null, looked_at: 1 }, 'after a forced push')
    git(path, 'update-ref', 'refs/heads/main', second)
    await report(third, 'ci/build')
    t.match(
      (await lastPassed('?branch=main')).json,
      { commit: null, looked_at: 2 },
      'a branch that was reset',
    )
  })

  t.test(`${database.name}: questions about a branch that cannot be answered`, async (t) => {
    const { server, lastPassed, branches, path, commits } = await setUp(t, database)
    for (const [query, status, error] of [
      ['', 422, 'branch is missing; it is required'],
      ['?branch=', 422, 'branch is 0 characters long; at least 1 is required'],
      ['?branch=mian', 404, 'The branch "mian" does not exist in this repository.'],
      ['?branch=refs/tags/v1', 422, 'branch: "refs/tags/v1" is a tag; name a branch'],
      ['?branch=HEAD', 404, 'The branch "HEAD" does not exist in this repository.'],
      ['?branch=main^{commit}', 404, 'The branch "main^{commit}" does not exist in this repository.'],
      ['?branch=main&requires=x', 422, /^"requires" is an unknown query parameter/],
      ['?branch=main&after=abc', 422, /^after must be a full commit id/],
      [
        `?branch=main&require=x&after=${'f'.repeat(64)}`,
        404,
        /^after: "main" is not known to have been at f+\./,
      ],
      // Where no commit is left to decide about, too.
      [`?branch=main&after=${commits[0]}`, 422, /^branch: no checks are required for "main"/],
      [`?branch=main&require=*&after=${commits[0]}`, 422, /^require: all patterns contain "\*"/],
      ['?branch=main&branch=x', 422, 'branch was sent more than once; send it once'],
    ] as const) {
      const answer = await lastPassed(query)
      t.equal(answer.status, status, query)
      t.match(answer.json.error, error)
    }
    const none = { branch: 'main', commit: null, looked_at: 0, next: null }
    t.same((await lastPassed(`?branch=main&require=x&after=${commits[0]}`)).json, none)
    for (const [query, error] of [
      ['?limit=0', 'limit must be >= 1; got 0'],
      ['?limit=31', 'limit must be <= 30; got 31'],
      ['?verdict=error', 'verdict must be one of pending, success, failure; got "error"'],
      ['?match=', 'match is 0 characters long; at least 1 is required'],
      ['?state=success', /^"state" is an unknown query parameter/],
    ] as const)
      t.match([(await branches(query)).status, (await branches(query)).json.error], [422, error])

    await server.createRepository('acme/empty', { commits: 0 })
    const ask = (name: string) => server.call('GET', `/api/v1/repos/acme/${name}`)
    t.equal((await ask('empty/last-passed?branch=main&require=x')).status, 404)
    const nothing = { branches: [], next: null, left_out: 0, truncated: false }
    t.same((await ask('empty/branches')).json, nothing, 'an empty repository')
    t.equal((await ask('missing/last-passed?branch=mian')).status, 401, 'access is decided first')
    git(path, 'update-ref', 'refs/heads/broken', commits[0] ?? '')
    const [lost = ''] = importCommits(path, 1)
    git(path, 'update-ref', 'refs/heads/lost', lost)
    rmSync(`${path}/objects/${lost.slice(0, 2)}/${lost.slice(2)}`)
    t.equal((await ask('rocket/last-passed?branch=lost&require=x')).status, 503, 'unavailable, not missing')
  })

  t.test(`${database.name}: patterns alone require nothing, unless a rule does`, async (t) => {
    const { store, repository, lastPassed, report, commits } = await setUp(t, database, 2)
    const [first = '', second = ''] = commits
    await report(second, 'docs')
    await report(first, 'ci')
    const refused =
      'require: all patterns contain "*", so the first report would meet them; ' +
      'name at least one check exactly, such as the one that reports last'
    for (const query of ['?branch=main&require=*', '?branch=main&require=d*&require=*']) {
      const answer = await lastPassed(query)
      t.same([answer.status, answer.json.error], [422, refused])
    }
    t.match((await lastPassed('?branch=main&require=*&require=ci')).json, { commit: { sha: first } })
    // Stored by a version that did not check this.
    const row = { repository_id: repository.id, branch_pattern: 'main', created_at: 0 }
    await store.engine.kysely
      .insertInto('branch_rules')
      .values({ ...row, required: '["d*"]' })
      .execute()
    t.match((await lastPassed('?branch=main')).json, { commit: { sha: second } }, 'a rule that is older')
    t.match((await lastPassed('?branch=main&require=*')).json, { commit: { sha: second } })
  })

  t.test(`${database.name}: commits on which a check failed are passed over`, async (t) => {
    const { lastPassed, report, require, commits } = await setUp(t, database, 4)
    const [first = '', second = '', third = '', newest = ''] = commits
    for (const sha of commits) await report(sha, 'ci')
    const ask = async (query: string) => (await lastPassed(`?branch=main${query}`)).json
    await report(newest, 'deploy', 'failure')
    await report(third, 'deploy', 'error')
    await report(second, 'deploy', 'pending')
    t.match(await ask('&require=ci'), { commit: { sha: newest }, looked_at: 1 })
    const failed = { commit: { sha: second, state: 'pending' }, looked_at: 3, next: null }
    t.match(await ask('&require=ci&unless=deploy'), failed, 'a deployment that runs has not failed')
    t.match(await ask('&require=ci'), { commit: { sha: newest } }, 'the same commits without it')
    t.match(await ask('&require=ci&unless=other'), { commit: { sha: newest } }, 'not reported')
    t.match(await ask('&require=ci&unless=Deploy'), { commit: { sha: newest } }, 'another context')
    t.match(await ask(`&require=ci&unless=deploy&after=${second}`), { commit: { sha: first }, looked_at: 1 })
    await report(second, 'deploy', 'failure')
    t.match(await ask('&require=ci&unless=deploy'), { commit: { sha: first }, looked_at: 4 })
    await report(first, 'deploy', 'failure')
    t.match(await ask('&require=ci&unless=deploy'), { commit: null, looked_at: 4, next: null })
    await report(newest, 'deploy')
    t.match(await ask('&require=ci&unless=deploy'), { commit: { sha: newest }, looked_at: 1 })
    await report(newest, 'ci', 'failure')
    t.match(
      await ask('&require=ci&unless=deploy'),
      { commit: null },
      'it requires nothing, and replaces nothing',
    )

    t.match((await lastPassed('?branch=main&unless=deploy')).status, 422, 'alone it requires nothing')
    t.match((await lastPassed('?branch=main&require=*&unless=deploy')).status, 422)
    for (const name of ['', 'deploy/*', '%00'])
      t.match((await lastPassed(`?branch=main&require=ci&unless=${name}`)).json.error, /^unless /)
    await require('main', 'ci')
    t.match(await ask('&unless=ci'), { commit: { sha: third } }, 'with a rule')
  })

  t.test(`${database.name}: each branch is found whose name git accepts`, async (t) => {
    const { lastPassed, report, path, commits } = await setUp(t, database)
    const [sha = ''] = commits
    await report(sha, 'ci')
    const names = ['-dash', '@', 'a@', '-', '--all', 'refs/heads/x', 'HEAD', 'ü', "it's", 'a"b', '#1']
    createBranches(
      path,
      names.map((name) => [name, sha]),
    )
    for (const name of names) {
      const found = await lastPassed(`?branch=${encodeURIComponent(name)}&require=ci`)
      t.match(found.json, { branch: name, commit: { sha } }, name)
    }
  })

  t.test(`${database.name}: only first parents are looked at, 300 at a time`, async (t) => {
    const { lastPassed, report, require, path } = await setUp(t, database)
    await require('*', 'ci')
    //  0 ── 1 ── 2 ──── 5
    //        └─ 3 ── 4 ─┘
    const ids = importGraph(path, [[], [0], [1], [1], [3], [2, 4]])
    git(path, 'update-ref', 'refs/heads/merged', ids[5] ?? '')
    await report(ids[4] ?? '', 'ci')
    await report(ids[1] ?? '', 'ci')
    t.match((await lastPassed('?branch=merged')).json, { commit: { sha: ids[1] }, looked_at: 3 })
    t.equal((await lastPassed(`?branch=merged&after=${ids[4]}`)).status, 404)

    const long = importCommits(path, 650).reverse()
    git(path, 'update-ref', 'refs/heads/long', long[0] ?? '')
    await report(long[600] ?? '', 'ci')
    const query = '?branch=long&require=ci&require=c*%26%3D'
    const page = await lastPassed(query)
    t.same(page.json, { branch: 'long', commit: null, looked_at: 300, next: long[299] })
    const link = `<?branch=long&require=ci&require=c*%26%3D&after=${long[299]}>; rel="next"`
    t.equal(page.headers.get('link'), link)
    const again = await lastPassed(query, { 'if-none-match': page.headers.get('etag') ?? '' })
    t.same([again.status, again.headers.get('link')], [304, link])
    const next = await lastPassed(`?branch=long&after=${long[299]}`)
    t.same(next.json, { branch: 'long', commit: null, looked_at: 300, next: long[599] })
    t.match((await lastPassed(`?branch=long&after=${long[599]}`)).json, {
      commit: { sha: long[600] },
      looked_at: 1,
      next: null,
    })
    t.same((await lastPassed(`?branch=long&after=${long[600]}`)).json, {
      branch: 'long',
      commit: null,
      looked_at: 49,
      next: null,
    })
    await report(long[10] ?? '', 'ci')
    const found = await lastPassed('?branch=long')
    t.match(found.json, { commit: { sha: long[10] }, looked_at: 11, next: null }, 'with 639 before it')
    t.equal(found.headers.get('link'), null)
  })

  t.test(`${database.name}: pages of branches`, async (t) => {
    const { branches, report, require, path, commits } = await setUp(t, database)
    const [main = ''] = commits
    const names = ['main', 'release/1', 'release/2', 'topic', '～', '😀']
    const [other = ''] = importCommits(path, 1)
    createBranches(
      path,
      names.slice(1).map((name) => [name, other]),
    )
    gitWith(path, Buffer.from(`create refs/heads/caf\xe9 ${other}\n`, 'latin1'), 'update-ref', '--stdin')
    await require('release/*', 'ci')
    await require('main', 'ci', 'lint')
    await report(main, 'ci')
    await report(main, 'extra', 'failure')
    await report(other, 'ci', 'error')

    const counts = { ...NONE, error: 1 }
    const red = { sha: other, state: 'failure', verdict: 'failure', counts }
    const all = [
      {
        name: 'main',
        sha: main,
        state: 'failure',
        verdict: 'pending',
        counts: { ...NONE, success: 1, failure: 1 },
      },
      { name: 'release/1', ...red },
      { name: 'release/2', ...red },
      ...['topic', '～', '😀'].map((name) => ({ name, ...red, verdict: null })),
    ]
    const ends = { left_out: 1, truncated: false }
    t.same((await branches()).json, { branches: all, next: null, ...ends })
    const page = await branches('?limit=2')
    t.same(page.json, { branches: all.slice(0, 2), next: 'release/1', ...ends })
    t.equal(page.headers.get('link'), '<?limit=2&after=release/1>; rel="next"')
    t.same((await branches('?limit=2&after=release/1')).json.branches, all.slice(2, 4))
    t.same((await branches('?after=release/0')).json.branches, all.slice(1), 'a name that is no branch')
    t.same((await branches('?after=%EF%BD%9E')).json, { branches: all.slice(5), next: null, ...ends })
    t.same((await branches('?after=%F0%9F%98%80')).json, { branches: [], next: null, ...ends })
    t.same((await branches('?limit=6')).json.next, null, 'exactly as many as there are')
    const emoji = await branches('?match=*&limit=5&verdict=failure')
    t.same(emoji.json.branches, all.slice(1, 3))
    const half = await branches('?match=*&limit=1&verdict=failure')
    t.same(half.json, { branches: all.slice(1, 2), next: 'release/1', ...ends })
    t.equal(half.headers.get('link'), '<?match=*&limit=1&verdict=failure&after=release/1>; rel="next"')
    t.same((await branches('?match=release/*')).json.branches, all.slice(1, 3))
    t.same((await branches('?match=refs/heads/*')).json.branches, [])
    t.same((await branches('?verdict=success')).json.branches, [], 'nothing without rules')
    t.same((await branches('?match=topic&verdict=pending')).json.branches, [])
    const etag = page.headers.get('etag') ?? ''
    t.equal((await branches('?limit=2', { 'if-none-match': etag })).status, 304)
    git(path, 'update-ref', 'refs/heads/main', other)
    t.match((await branches('?limit=2', { 'if-none-match': etag })).json.branches, [{ sha: other }, all[1]])
  })

  t.test(`${database.name}: a walk beside pushes sees each branch that stays exactly once`, async (t) => {
    const { branches, path, commits } = await setUp(t, database)
    const [sha = ''] = commits
    const other = importCommits(path, 1)[0] ?? ''
    const stays = Array.from({ length: 40 }, (_, index) => `b${100 + 2 * index}`)
    createBranches(
      path,
      stays.map((name) => [name, sha]),
    )
    const seen: string[] = []
    let [link, step]: [string, number] = ['?limit=3&match=b*', 0]
    while (link !== '') {
      const page = await branches(link)
      seen.push(...(page.json.branches ?? []).map(({ name }) => name))
      link = /^<(.*)>/.exec(page.headers.get('link') ?? '')?.[1] ?? ''
      // Branches come and go before, at and after the place of the walk; others move.
      const near = 100 + 2 * seen.length + 1
      const lines = [near - 10, near, near + 10].map((number) => `update refs/heads/b${number} ${sha}`)
      const gone = step++ % 2 === 0 ? [] : [`delete refs/heads/b${near}`]
      const moved = `update refs/heads/${stays[step % stays.length]} ${step % 2 === 0 ? sha : other}`
      gitWith(path, [...lines, moved, ''].join('\n'), 'update-ref', '--stdin')
      if (gone.length > 0) gitWith(path, `${gone.join()}\n`, 'update-ref', '--stdin')
    }
    t.same(
      seen.filter((name) => stays.includes(name)),
      stays,
    )
    t.equal(new Set(seen).size, seen.length, 'none twice')
  })

  t.test(`${database.name}: a page with a verdict looks at 300 branches`, async (t) => {
    const { branches, report, require, path, commits } = await setUp(t, database)
    const [sha = ''] = commits
    createBranches(
      path,
      Array.from({ length: 700 }, (_, index) => [`b${1000 + index}`, sha]),
    )
    await require('b1650', 'ci')
    await report(sha, 'ci')
    let [found, pages, next]: [string[], number, string | null | undefined] = [[], 0, undefined]
    do {
      const after: string = next ? `&after=${next}` : ''
      const { json } = await branches(`?verdict=success${after}`)
      found.push(...(json.branches ?? []).map(({ name }) => name))
      next = json.next
      pages++
    } while (next)
    t.same([found, pages], [['b1650'], 3])
  })
}

t.test('what did not change starts no process', async (t) => {
  const [database] = databases
  if (!database) return
  const { branches, lastPassed, require, path } = await setUp(t, database, 400)
  await require('main', 'ci')
  // For 50 ms after a change, the next one could have the same time.
  await setTimeout(100)
  const [page, passed] = [await branches(), await lastPassed('?branch=main')]
  const runs = `${path}/runs`
  replaceGit(t, `echo "$*" >>${runs}; exec $git "$@"`)
  t.same((await branches()).json, page.json)
  t.same((await lastPassed('?branch=main')).json, passed.json)
  t.notOk(existsSync(runs))
  createCommits(path, 1)
  await Promise.all([branches(), lastPassed('?branch=main')])
  t.match(readFileSync(runs, 'utf8'), /^.*rev-list.*\n$/, 'one after a push, for its commits')
})

for (const database of databases)
  t.test(`${database.name}: branches that wait for a check`, async (t) => {
    const { server, store, repository, awaiting, branches, report, require, commits, path } = await setUp(
      t,
      database,
      330,
    )
    const nameOf = (index: number) => `b/${`${index}`.padStart(3, '0')}`
    createBranches(
      path,
      commits.map((sha, index) => [nameOf(index), sha]),
    )
    const names = async (query: string) => (await awaiting(query)).json.branches?.map(({ name }) => name)

    const first = await awaiting('context=ci&match=b/*')
    t.equal(first.json.branches?.length, 30)
    t.equal(first.json.next, nameOf(29))
    const walked: string[] = []
    let after = ''
    for (let pages = 0; pages < 20; pages++) {
      const { json } = await awaiting(`context=ci&match=b/*&limit=30${after}`)
      walked.push(...(json.branches ?? []).map(({ name }) => name))
      if (!json.next) break
      after = `&after=${json.next}`
    }
    t.same(
      walked,
      commits.map((_, index) => nameOf(index)),
      'each branch is on one page',
    )

    const etag = first.headers.get('etag') ?? ''
    const same = async () => (await awaiting('context=ci&match=b/*', { 'if-none-match': etag })).status
    await report(commits[3] ?? '', 'other', 'failure')
    t.equal(await same(), 304, 'another context changes nothing')
    await report(commits[3] ?? '', 'ci', 'pending')
    t.equal(await same(), 200)
    t.match((await awaiting('context=ci&match=b/*')).json.branches?.[3], {
      name: nameOf(3),
      state: 'pending',
    })
    await report(commits[3] ?? '', 'ci', 'error')
    t.equal((await names('context=ci&match=b/*'))?.[3], nameOf(4), 'a result ends the wait')
    t.same(await names('context=other&match=b/003'), [], 'so does a failure')
    await asAdministrator(store).statuses.delete({ repositoryId: repository.id, sha: commits[3] ?? '' }, 'ci')
    t.equal((await names('context=ci&match=b/*'))?.[3], nameOf(3), 'a deleted status has no result')
    git(path, 'update-ref', 'refs/heads/b/000', commits[3] ?? '')
    t.match((await awaiting('context=ci&match=b/000')).json.branches, [{ sha: commits[3], state: null }])

    for (const sha of commits.slice(1, 301)) await report(sha, 'all')
    t.match((await awaiting('context=all&match=b/*&after=b/000')).json, { branches: [], next: nameOf(300) })
    t.equal((await names('context=all&match=b/*&after=b/300'))?.[0], nameOf(301))
    t.equal((await awaiting('context=all&match=b/32*&limit=10&after=b/319')).json.next, null)

    // Until here the list was read again each time: it had just changed.
    await setTimeout(100)
    await names('context=ci&match=b/*')
    for (const limit of [3, 4])
      t.equal((await names(`context=ci&match=b/*&limit=${limit}`))?.length, limit, 'the same list')
    t.match((await branches('?match=b/004')).json.branches, [{ counts: { ...NONE, success: 1 } }])
    await report(commits[4] ?? '', 'late', 'failure')
    t.match((await branches('?match=b/004')).json.branches, [{ counts: { ...NONE, success: 1, failure: 1 } }])
    await require('b/004', 'all')
    for (const [verdict, length] of [
      ['success', 1],
      ['failure', 0],
      ['success', 1],
    ] as const)
      t.equal((await branches(`?match=b/004&verdict=${verdict}`)).json.branches?.length, length)

    const reader = await server.createToken('reader')
    t.equal(
      (await server.call('GET', '/api/v1/repos/acme/rocket/awaiting?context=ci', { token: reader })).status,
      200,
    )
    for (const query of [
      '',
      'context=',
      'context=ci&contxt=x',
      `context=${'x'.repeat(256)}`,
      'context=a&context=b',
      'context=ci&limit=31',
      'context=ci&limit=0',
    ])
      t.equal((await awaiting(query)).status, 422, query)
  })

t.test('a report with a wrong claim is refused by the name of the field', async (t) => {
  const server = await startServer(t)
  const { commits } = await server.createRepository(REPO, { commits: 1 })
  const [sha = ''] = commits
  const token = await server.createToken('acme')
  const send = (more: object) => server.report(REPO, sha, { state: 'pending', context: 'ci', ...more }, token)
  for (const claim of [9, 3601, 1.5, '300', true, null, -10, 1e3 + 0.5]) {
    const { status, json } = await send({ run: 'a', claim })
    t.match([status, json.error], [422, /^claim /], `${claim}`)
  }
  t.match(await send({ claim: 300 }), {
    status: 422,
    json: { error: 'claim requires run, which is missing' },
  })
  t.same((await server.read(REPO, sha)).json.statuses, [], 'nothing is stored')
  for (const claim of [10, 3600]) t.equal((await send({ run: 'a', claim })).status, 201, `${claim}`)
  const stranger = await server.createToken('stranger')
  const limited = await server.createToken('acme', { limits: { contexts: ['lint'] } })
  const claim = { state: 'pending', context: 'ci', run: 'b', claim: 10 }
  t.equal(
    (await server.report(REPO, sha, claim, stranger)).status,
    403,
    'before anything is said of the claim',
  )
  t.equal((await server.report(REPO, sha, claim, limited)).status, 403)
  t.equal((await server.report(REPO, 'f'.repeat(40), claim, token)).status, 404)
})

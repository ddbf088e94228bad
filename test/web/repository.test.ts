import { existsSync, readFileSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import fastify from 'fastify'
import { type RawBuilder, sql } from 'kysely'
import t, { type Test } from 'tap'
import type { StatusState } from '../../src/domain/states.ts'
import { ServiceError } from '../../src/errors.ts'
import { createGitQueue } from '../../src/git/history/cached-reads.ts'
import { CommitLog } from '../../src/git/history/log.ts'
import { RefLists } from '../../src/git/history/ref-lists.ts'
import type { Refs } from '../../src/git/refs/read-refs.ts'
import { decorateClient } from '../../src/replies/client.ts'
import { openStore, type Store } from '../../src/store/store.ts'
import { Ranking } from '../../src/web/pages/repositories/ranking.ts'
import { RedBranches } from '../../src/web/pages/repository/red-branches.ts'
import { OpenPages } from '../../src/web/routing/open-pages.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { openTestStore, postgres, sqlite, type TestDatabase } from '../helpers/databases.ts'
import { git, importCommits, replaceGit } from '../helpers/git.ts'
import { recordLog } from '../helpers/log.ts'
import { createAccount, openPageClient } from '../helpers/page-client.ts'
import { addReport, addRepository } from '../helpers/records.ts'
import { type ServerOptions, startServer } from '../helpers/server.ts'
import { recordStatements } from '../helpers/statements.ts'
import { until } from '../helpers/until.ts'

async function setUp(t: Test, database: TestDatabase = sqlite, options: ServerOptions = {}) {
  const server = await startServer(t, { database, ...options })
  await createAccount(server, 'alice')
  const token = await server.createToken('alice')
  const create = async (name: string, count: number, options = {}) => {
    const { path } = await server.createRepository(`alice/${name}`, { commits: 0, ...options })
    const commits = count > 0 ? importCommits(path, count, (index) => `Subject ${index} of ${name}`) : []
    const set = (ref: string, sha = '') => git(path, 'update-ref', ref, sha)
    if (count > 0) set('refs/heads/main', commits.at(-1))
    const report = async (sha = '', states: Record<string, string>) => {
      for (const [context, state] of Object.entries(states)) {
        const { status } = await server.report(`alice/${name}`, sha, { context, state }, token)
        t.equal(status, 201)
      }
    }
    return { path, commits, set, report }
  }
  const client = openPageClient(server.url)
  await client.signIn('alice')
  return { server, create, client, anonymous: openPageClient(server.url) }
}

/** Returns the text of each element of a list, without markup. */
function items(body: string, kind: 'commit' | 'ref'): string[] {
  const found =
    body.match(new RegExp(`<li ${kind === 'ref' ? 'class="ref' : 'id="[rc]-'}[^>]*>.*?</li>`, 'gs')) ?? []
  return found.map((item) => textOf(item))
}

function textOf(html: string): string {
  return html
    .replace(/<[^>]*>/g, '')
    .replace(/\s+/g, ' ')
    .trim()
}

for (const database of [sqlite, postgres]) {
  t.test(`the start page shows the state of each default branch, ${database.name}`, async (t) => {
    const { server, create, client, anonymous } = await setUp(t, database)
    /** Reads the start page once so many rows say since when they fail: no answer waits long for git. */
    const home = async (failing: number) => {
      let page = await anonymous.get('/')
      await until(async () => {
        page = await anonymous.get('/')
        return page.body.split('failed on').length > failing
      })
      return page
    }
    const green = await create('green', 2)
    await green.report(green.commits[1], { 'ci/build': 'success' })
    const red = await create('red', 5)
    await red.report(red.commits[0], { 'ci/build': 'success', a: 'success' })
    await red.report(red.commits[2], { a: 'failure' })
    await red.report(red.commits[4], { a: 'failure', b: 'error', c: 'failure', d: 'failure', e: 'pending' })
    const long = await create('long', 2)
    for (const sha of long.commits) await long.report(sha, { 'ci/build': 'failure' })
    await create('silent', 1)
    await create('empty', 0)
    const gone = await create('gone', 1)
    await rm(gone.path, { recursive: true })
    const damaged = await create('damaged', 1)
    await writeFile(join(damaged.path, 'HEAD'), 'nonsense')
    const hidden = await create('hidden', 1, { private: true })
    await hidden.report(hidden.commits[0], { 'secret/context': 'failure' })

    const { status, body } = await home(2)
    t.equal(status, 200)
    const rows = items(body, 'commit')
    t.equal(rows.length, 7)
    t.match(rows[2], /^unavailable alice \/ damaged The files of this repository cannot be opened/)
    t.match(rows[3], /^unavailable alice \/ gone The files/)
    const broken = rows.slice(0, 2).sort()
    t.match(
      broken[0],
      /^failure alice \/ long ci\/build Failing for less than a minute: Subject 0 of long · failed on 2 commits, no pass before$/,
    )
    t.match(
      broken[1],
      /^failure alice \/ red 4 failed: a, b, c Broken for less than a minute between \w{7} and \w{7}: Test \(2 commits\) · failed on 2 commits$/,
    )
    t.match(rows[4], /^success alice \/ green Subject 1 of green Test \d+ years? ago$/)
    t.match(rows[5], /^no status alice \/ silent Subject 0 of silent/)
    t.equal(rows[6], 'empty alice / empty Nothing has been pushed yet.')
    t.notMatch(body, /hidden|secret/)
    t.match(body, /<title>✗ 2 failing · Repositories<\/title>.*icon-failure\.svg/s)
    t.same(body.match(/href="\/\?state=\w+">[^<]*/g), [
      'href="/?state=failing">2 failing',
      'href="/?state=running">0 running',
      'href="/?state=passing">1 passing',
    ])
    for (const path of ['/?state=passing', '/alice?state=passing'])
      t.match(items((await anonymous.get(path)).body, 'commit').join(), /^success alice \/ green [^,]*$/)
    const own = items((await client.get('/')).body, 'commit')
    t.ok(own.slice(0, 3).some((row) => /^failure alice \/ hidden private secret/.test(row)))
    t.equal((await fetch(`${server.url}/alice/gone`)).status, 503)

    const running = await create('running', 4)
    await running.report(running.commits[0], { a: 'success', b: 'success' })
    await running.report(running.commits[1], { a: 'failure', b: 'success' })
    await running.report(running.commits[2], { a: 'failure', b: 'success' })
    await running.report(running.commits[3], { a: 'pending', b: 'success' })
    const row = items((await home(3)).body, 'commit').find((text) => text.includes('/ running'))
    t.match(
      row,
      /^pending alice \/ running Subject 3 of running Test Broken for less than a minute by Test: Subject 1 of running · failed on 2 commits$/,
      'a run that has not ended does not hide who broke it',
    )
    const [, tip = ''] = /<p id="broken">(.*?)<\/p>/s.exec((await anonymous.get('/alice/running')).body) ?? []
    t.match(
      textOf(tip),
      /^Broken for less than a minute by Test: Subject 1 of running . failed on 2 commits$/,
    )
    const waiting = await create('waiting', 3)
    await waiting.report(waiting.commits[0], { a: 'success' })
    await waiting.report(waiting.commits[1], { a: 'failure' })
    const unreported = items((await home(4)).body, 'commit').find((text) => text.includes('/ waiting'))
    t.match(
      unreported,
      /^no status alice \/ waiting Subject 2 of waiting Test Broken for less than a minute by Test: Subject 1 of waiting · failed on 1 commit$/,
      'nor does a commit on which nothing has been reported yet',
    )
    const { body: waitingPage } = await anonymous.get('/alice/waiting')
    t.match(
      textOf(waitingPage),
      /main · no checks have reported yet Broken for less than a minute by Test: Subject 1/,
    )
    await running.report(running.commits[3], { a: 'success' })
    t.notMatch((await anonymous.get('/alice/running')).body, 'id="broken"', 'it has passed')
  })

  t.test(`an open page is what it was, without git, until something changes, ${database.name}`, async (t) => {
    const { server, create, client, anonymous } = await setUp(t, database)
    const { store } = server
    const admin = asAdministrator(store)
    const other = await openStore(server.options)
    t.teardown(() => other.close())
    // Without a token, whose last use would be stored some time later.
    const report = async (to: Store, name: string, sha = '', context: string, state: StatusState) => {
      const repositoryId = (await store.listing.find(null, 'alice', name))?.id ?? 0
      await addReport({ store: to, repositoryId, sha }, context, state)
    }
    const red = await create('red', 4)
    const [first, second, third, tip = ''] = red.commits
    await report(store, 'red', first, 'ci', 'success')
    await report(store, 'red', second, 'ci', 'failure')
    await report(store, 'red', tip, 'ci', 'failure')
    const green = await create('green', 2)
    await report(store, 'green', green.commits[1], 'ci', 'success')
    await create('empty', 0)
    await server.createRepository('bob/secret', { private: true })
    const alice = (await store.users.find('alice'))?.id ?? 0
    await admin.collaborators.set({ owner: 'bob', name: 'secret' }, alice, 'read')

    red.set('refs/heads/former', second)
    const [start, page, owner, checks] = ['/', '/alice/red', '/alice', '/alice/red/checks']
    const former = `${page}?ref=former`
    const etags = new Map<string, string | null>()
    const who = { client, anonymous }
    const poll = async (by: keyof typeof who, path: string) => {
      const answer = await who[by].poll(path, etags.get(`${by} ${path}`))
      if (answer.status === 200) etags.set(`${by} ${path}`, answer.headers.get('etag'))
      return answer
    }
    const all = [start, page, owner, checks, former].flatMap((path) => [
      ['client', path] as const,
      ['anonymous', path] as const,
    ])
    const settle = async (pages: readonly (readonly [keyof typeof who, string])[] = all) => {
      for (const [by, path] of [...pages, ...pages]) await poll(by, path)
    }
    await settle()
    // For this long after a change, the next one of a file could have the same time.
    await setTimeout(database === sqlite ? 100 : 2_100)
    await settle()
    const runs = `${red.path}/runs`
    replaceGit(t, `echo "$*" >>${runs}; exec $git "$@"`)
    const statements = recordStatements(t)
    for (const [by, path] of all) {
      const most = by === 'anonymous' && database === sqlite ? 0 : 1
      // Snapshots of PostgreSQL are those of all its databases, which other tests change.
      await until(async () => {
        statements.length = 0
        const { status, body } = await poll(by, path)
        t.same([status, body], [304, ''], `${by} ${path}`)
        return statements.length <= most
      })
    }
    t.notOk(existsSync(runs))

    const rule = (to: Store, name: string, required: string[]) =>
      asAdministrator(to).rules.set({ owner: 'alice', name }, { refPattern: 'main', required, bypass: [] })
    const both = ['client', 'anonymous'] as const
    const changes: [string, () => unknown, readonly (keyof typeof who)[], string[]][] = [
      ['a report', () => report(store, 'red', tip, 'lint', 'failure'), both, [start, page, owner, checks]],
      [
        'a report of another server',
        () => report(other, 'red', tip, 'lint', 'pending'),
        both,
        [start, page, owner, checks],
      ],
      [
        'a report before the newest commit',
        () => report(store, 'red', third, 'ci', 'success'),
        both,
        [start, page, checks],
      ],
      [
        'one of another server',
        () => report(other, 'red', third, 'ci', 'failure'),
        both,
        [start, page, checks],
      ],
      ['a rule', () => rule(store, 'red', ['e2e']), both, [page, checks]],
      ['a rule of another server', () => rule(other, 'red', ['e2e', 'docs']), both, [page, checks]],
      ['a rule of a passing branch', () => rule(store, 'green', ['e2e']), both, [start, owner]],
      ['a branch', () => red.set('refs/heads/new', tip), both, [page, checks]],
      ['a tag', () => red.set('refs/tags/v1', tip), both, [page, checks]],
      ['a push', () => red.set('refs/heads/main', third), both, [start, page, owner, checks]],
      [
        'a visit that shows which branches contain the commit of a page',
        // The first ones may not wait for git.
        () => until(async () => (await client.get(`/alice/red/commits/${second}`)).body.includes('newer: ')),
        both,
        [former],
      ],
      [
        'another default branch',
        () => git(red.path, 'symbolic-ref', 'HEAD', 'refs/heads/new'),
        both,
        [start, page, checks],
      ],
      ['packed refs', () => git(red.path, 'pack-refs', '--all'), [], []],
      ['a push to packed refs', () => red.set('refs/heads/new', first), both, [start, page, checks]],
      ['a new repository', () => create('next', 1), both, [start, owner]],
      [
        'less visible',
        () => admin.repositories.setVisibility({ owner: 'alice', name: 'green' }, 'private'),
        both,
        [start, owner],
      ],
      [
        'a lost right',
        () => admin.collaborators.set({ owner: 'bob', name: 'secret' }, alice, null),
        ['client'],
        [start],
      ],
      [
        'a right of another server',
        () => asAdministrator(other).collaborators.set({ owner: 'bob', name: 'secret' }, alice, 'read'),
        ['client'],
        [start],
      ],
      [
        'another name',
        () => admin.repositories.rename({ owner: 'alice', name: 'red' }, { owner: 'alice', name: 'blue' }),
        both,
        [start, page, owner, checks],
      ],
      [
        'the end of a session',
        () => admin.sessions.endAll({ id: alice, name: 'alice' }),
        ['client'],
        [start, owner],
      ],
    ]
    for (const [what, change, seenBy, paths] of changes) {
      const pages = seenBy.flatMap((by) => paths.map((path) => [by, path] as const))
      await settle(pages)
      await change()
      for (const [by, path] of pages) t.not((await poll(by, path)).status, 304, `${what}: ${by} ${path}`)
    }

    await settle()
    const isHeld = `${red.path}/held`
    await writeFile(isHeld, '')
    replaceGit(t, `while [ -e ${isHeld} ]; do sleep 0.1; done; exec $git "$@"`)
    red.set('refs/heads/new', third)
    const begin = performance.now()
    t.match((await poll('anonymous', start)).body, 'Reading this repository takes long')
    t.ok(performance.now() - begin < 9_000, 'an open page waits for git no longer than a new one')
    await rm(isHeld)

    await until(async () => (await poll('anonymous', owner)).status === 304)
    for (const { path } of await store.repositories.list()) await rm(path, { recursive: true })
    for (const path of [start, owner])
      t.match((await poll('anonymous', path)).body, 'cannot be opened', `lost files: ${path}`)
  })

  t.test(`what is broken comes first, of however many repositories, ${database.name}`, async (t) => {
    const { server, create, client, anonymous } = await setUp(t, database)
    const { path, commits } = await create('zz-broken', 1)
    const others = Array.from({ length: 230 }, (_, index) => `r${String(index).padStart(3, '0')}`)
    const kind = { visibility: 'public', objectFormat: 'sha1' } as const
    await asAdministrator(server.store).repositories.createAll(
      others.map((name) => ({ owner: 'alice', name, ...kind, path })),
    )
    await server.report(
      'alice/zz-broken',
      commits[0] ?? '',
      { context: 'ci', state: 'failure' },
      await server.createToken('alice'),
    )
    await create('zzz-hidden', 1, { private: true })
    const bob = openPageClient(server.url)
    await createAccount(server, 'bob')
    await bob.signIn('bob')
    t.equal(items((await anonymous.get('/')).body, 'commit').length, 30, 'the first page waits for nothing')
    const isFirst = async () =>
      /^failure alice . zz-broken/.test(items((await anonymous.get('/')).body, 'commit')[0] ?? '')
    await until(isFirst)
    for (const visitor of [anonymous, client, bob]) {
      const rows = items((await visitor.get('/')).body, 'commit')
      t.equal(rows.length, 30)
      t.match(
        rows[0],
        /^failure alice \/ zz-broken ci Failing for less than a minute: Subject 0 of zz-broken · failed on 1 commit, no pass before$/,
      )
      t.notMatch(rows.join(), visitor === client ? 'nothing' : 'hidden')
      const { body } = await visitor.get('/?state=failing')
      t.match(body, '?state=failing" aria-current="true">1 failing')
      t.equal(items(body, 'commit').length, 1, 'one of those that the page does not show')
    }
  })

  t.test(`a broken one is found among 10,100, whatever its name, ${database.name}`, async (t) => {
    const { logger, lines } = recordLog('error')
    const { server, create, anonymous } = await setUp(t, database, { logger })
    const { path, commits } = await create('aa-broken', 1)
    const { id } = await server.store.repositories.get('alice', 'aa-broken')
    const { kysely } = server.store.engine
    const repositories = kysely.selectFrom('repositories').selectAll().where('id', '=', id)
    const { id: _, ...columns } = await repositories.executeTakeFirstOrThrow()
    const name = sql`'r' || i`
    const values: Record<string, RawBuilder<unknown>> = { name, name_key: name, path: sql`${`${path}/none`}` }
    const names = Object.keys(columns)
    await sql`insert into repositories (${sql.join(names.map((column) => sql.ref(column)))})
      with recursive numbers (i) as (select 1 union all select i + 1 from numbers where i < 10100)
      select ${sql.join(names.map((column) => values[column] ?? sql.ref(column)))}
        from numbers, repositories where id = ${id}`.execute(kysely)
    const token = await server.createToken('alice')
    await server.report('alice/aa-broken', commits[0] ?? '', { context: 'ci', state: 'failure' }, token)
    const ranking = new Ranking(new CommitLog(createGitQueue(), { count: 1 }), server.store)
    const refreshed = ranking.refreshFirst()
    await ranking.refreshFirst()
    t.same(ranking.first, [], 'only one refresh at a time')
    await refreshed
    t.same(ranking.first, [id])
    await kysely.schema.alterTable('audit_events').renameTo('missing').execute()
    t.equal((await anonymous.get('/')).status, 200)
    // A failure is logged.
    await until(() => lines.some((line) => line.includes('audit_events')))
    await kysely.schema.alterTable('missing').renameTo('audit_events').execute()
  })

  t.test(`after a failure not every page reads all repositories, ${database.name}`, async (t) => {
    const { server, create } = await setUp(t, database)
    const { commits, report } = await create('rocket', 1)
    await report(commits[0], { ci: 'failure' })
    const ranking = new Ranking(new CommitLog(createGitQueue(), { count: 1 }), server.store)
    const { schema } = server.store.engine.kysely
    await schema.alterTable('audit_events').renameTo('missing').execute()
    await t.rejects(ranking.refreshFirst())
    await schema.alterTable('missing').renameTo('audit_events').execute()
    await ranking.refreshFirst()
    t.same(ranking.first, [])
  })

  t.test(`a repository page shows branches with states and failed contexts, ${database.name}`, async (t) => {
    const { create, anonymous } = await setUp(t, database)
    const { commits, set, report } = await create('rocket', 5)
    const [first, second, third, fourth, fifth] = commits
    set('refs/heads/feature/x', third)
    set('refs/heads/old', first)
    set('refs/tags/v1', second)
    set('refs/tags/old', fourth)
    await report(fifth, { 'ci/mac': 'failure', 'ci/unit': 'success', 'ci/win': 'pending' })
    await report(third, { 'ci/unit': 'pending' })
    await report(
      first,
      Object.fromEntries(['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => [name, 'failure'])),
    )

    const page = await anonymous.get('/alice/rocket')
    t.equal(page.status, 200)
    t.match(textOf(page.body), 'failure main · 1 failed: ci/mac · 1 pending · 1 passed')
    const branches = items(page.body, 'ref').map((text) => text.replace(/\d+ years? ago/, 'AGE'))
    t.same(branches, ['failure main default · AGE', 'failure old AGE', 'pending feature/x AGE'])
    const rows = items(page.body, 'commit')
    t.equal(rows.length, 5)
    t.match(rows[0], `failure Subject 4 of rocket ${fifth?.slice(0, 7)} `)
    t.match(rows[1], /^no status Subject 3/)
    t.match(rows[4], 'failure Subject 0 of rocket 7 failed: a, b, c ')

    const shown = async (query: string) => {
      const { status, body } = await anonymous.get(`/alice/rocket?${query}`)
      t.equal(status, 200, query)
      const [, heading = ''] = /<h2 id="commits">(.*?)<\/h2>/.exec(body) ?? []
      return [textOf(heading), items(body, 'commit').length]
    }
    t.same(await shown('ref=feature/x'), ['Commits of feature/x', 3])
    t.same(await shown('ref=feature%2Fx'), ['Commits of feature/x', 3])
    t.same(await shown('ref=v1'), ['Commits of v1', 2])
    t.match(textOf((await anonymous.get('/alice/rocket?ref=v1')).body), 'v1 · no checks have reported yet')
    t.same(await shown('ref=old'), ['Commits of old', 1], 'a branch comes before a tag')
    t.same(await shown('ref=refs/tags/old'), ['Commits of old', 4])
    t.match(page.body, '<option value="refs/tags/old" label="old">', 'the tag can be chosen nonetheless')
    t.same(await shown('ref='), ['Commits of main', 5])
    t.same(await shown('ref=old&ref=main'), ['Commits of old', 1])

    for (const unknown of [
      'feature',
      'OLD',
      'main~1',
      'HEAD',
      '--all',
      '%00',
      'x%0A',
      '<b>',
      fifth ?? '',
      ':/Subject',
    ]) {
      const { status, body } = await anonymous.get(`/alice/rocket?ref=${unknown}`)
      t.equal(status, 404, unknown)
      t.match(body, 'There is no commit, branch or tag', unknown)
      t.notMatch(body, '<b>', unknown)
    }
    const { body } = await anonymous.get('/alice/rocket?ref=FEAT')
    t.same(
      items(body, 'ref').map((text) => text.replace(/\d.*/, '')),
      ['feature/x '],
      'names that contain it',
    )
  })
}

t.test('an open page that was not complete, or not for long, is made again', async (t) => {
  const { server, create, anonymous } = await setUp(t)
  const { store } = server
  let shift = 0
  const { now: clock } = performance
  t.capture(performance, 'now', () => clock.call(performance) + shift)
  const etags = new Map<string, string | null>()
  const poll = async (path: string) => {
    const answer = await anonymous.poll(path, etags.get(path))
    if (answer.status === 200) etags.set(path, answer.headers.get('etag'))
    return answer
  }
  const settle = (path: string) => until(async () => (await poll(path)).status === 304)

  const red = await create('red', 3)
  const [first = '', , tip = ''] = red.commits
  const { id } = await store.repositories.get('alice', 'red')
  await addReport({ store, repositoryId: id, sha: first }, 'ci')
  await addReport({ store, repositoryId: id, sha: tip }, 'ci', 'failure')
  const fault = join(red.path, 'fault')
  replaceGit(t, `case "$*" in *" ^"*) [ -e ${fault} ] && . ${fault} ;; esac; exec $git "$@"`)
  const named = /between .*\(2 commits\)/
  await writeFile(fault, 'exit 1')
  t.notMatch(textOf((await poll('/alice/red')).body), named, 'git fails')
  await writeFile(fault, 'sleep 4')
  t.notMatch(textOf((await poll('/')).body), named, 'git is slow')
  await rm(fault)
  for (const path of ['/', '/alice/red']) t.match(textOf((await poll(path)).body), named, path)

  for (let index = 10; index < 42; index++)
    await asAdministrator(store).repositories.create({
      owner: 'alice',
      name: `r${index}`,
      visibility: 'public',
      objectFormat: 'sha1',
      path: red.path,
    })
  await settle('/')
  const { id: last } = await store.repositories.get('alice', 'r41')
  await addReport({ store, repositoryId: last, sha: tip }, 'ci', 'failure')
  shift += 31_000
  t.match(textOf((await poll('/')).body), '2 failing', 'one that the page did not show')

  const many = await create('many', 2)
  const [old = '', newest = ''] = many.commits
  const { id: repositoryId } = await store.repositories.get('alice', 'many')
  const branches = Array.from({ length: 40 }, (_, index) => `${newest} refs/heads/b${index + 10}\n`)
  await writeFile(
    join(many.path, 'packed-refs'),
    `# pack-refs with: peeled fully-peeled sorted \n${branches.join('')}${old} refs/heads/yy\n`,
  )
  await addReport({ store, repositoryId, sha: newest }, 'slow', 'pending')
  const { now: date } = Date
  const before = 3_600_000 - 20_000 - shift
  t.capture(Date, 'now', () => date() + before + shift)
  const stalled = '/alice/many/checks?state=stalled'
  await settle(stalled)
  shift += 30_000
  const list = (await poll(stalled)).body
  t.match(list, 'stalled (1)', 'nothing was reported for an hour')
  t.match(list, '>Name contains</label>')

  const failed = async () =>
    items((await poll('/alice/many')).body, 'ref').flatMap((text) => /^failure (\S+)/.exec(text)?.[1] ?? [])
  await settle('/alice/many')
  await addReport({ store, repositoryId, sha: old }, 'ci', 'failure')
  await settle('/alice/many')
  shift += 11_000
  t.same(await failed(), ['yy'], 'a branch that the page did not show')
  many.set('refs/heads/zz', old)
  t.same(await failed(), ['yy', 'zz'], 'after a push')
})

t.test('older commits are reached page by page', async (t) => {
  const { create, anonymous } = await setUp(t)
  const { commits, path, set } = await create('long', 70)
  set('refs/heads/a+b', commits[64])
  const seen: string[] = []
  let next: string | undefined = '/alice/long?ref=a%2Bb'
  for (let pages = 1; next !== undefined && pages < 10; pages++) {
    const { status, body } = await anonymous.get(next)
    t.equal(status, 200)
    t.equal(body.includes('aria-label="State of a+b"'), pages === 1)
    seen.push(...[...body.matchAll(/commits\/(\w{40})">/g)].map(([, sha = '']) => sha))
    next = /rel="next" href="([^"]+)"/.exec(body)?.[1]?.replaceAll('&amp;', '&')
    if (next) t.match(next, /^\/alice\/long\?ref=a%2Bb&after=[0-9a-f]{40}$/)
  }
  t.same([...new Set(seen)], commits.slice(0, 65).reverse())

  const [some = ''] = commits
  const tree = git(path, 'rev-parse', 'main^{tree}')
  for (const unknown of [
    some.slice(0, 10),
    `${some}~1`,
    'main',
    'HEAD',
    tree,
    'a'.repeat(40),
    `${some},`,
    `${some},x`,
    '--all',
    '%00',
    'a'.repeat(64),
  ])
    t.equal((await anonymous.get(`/alice/long?after=${unknown}`)).status, 404, unknown)
  const many = Array.from({ length: 100 }, () => some).join(',')
  t.equal((await anonymous.get(`/alice/long?after=${many}`)).status, 200)
  const last = await anonymous.get(`/alice/long?after=${some}`)
  t.equal(last.status, 200)
  t.match(last.body, 'There are no older commits.')
})

t.test('what was pushed and reported cannot disguise itself or make the page large', async (t) => {
  const { create, anonymous } = await setUp(t)
  const { path, report, set } = await create('hostile', 1)
  const evil = '\u202Egnp.<b>"\u0007&amp;'
  const commits = importCommits(path, 30, (index) => `${evil}${'&'.repeat(index === 3 ? 500_000 : 0)}`)
  set('refs/heads/main', commits.at(-1))
  set('refs/heads/\u202Egnp', commits[0])
  const branches = Array.from(
    { length: 300 },
    (_, index) => `${commits[index % 30]} refs/heads/branch-${index}\n`,
  )
  await writeFile(join(path, 'packed-refs'), branches.join(''))
  await report(commits.at(-1), { [evil]: 'failure', [`${'x'.repeat(200)}\u{1D41A}`]: 'error' })
  for (const path of ['/', '/alice/hostile']) {
    const { body } = await anonymous.get(path)
    t.notMatch(body, /[\p{Bidi_Control}[\p{Cc}--\n]]/v, path)
    t.match(body, '[U+202E]gnp.&lt;b&gt;&quot;\u2407&amp;amp;', path)
    t.ok(body.length < 200_000, `${path}: ${body.length} characters`)
  }
  const { body } = await anonymous.get('/alice/hostile')
  t.equal(items(body, 'ref').length, 30)
  t.match(body, '272 of these are not listed', 'the rest can be found')
  t.match(textOf(body), '11 of 302 branches failed')
  t.match(body, '<summary>296 more branches</summary>')
  const first = items(body, 'ref').slice(0, 12)
  t.same(
    first.map((text) => text.split(' ')[0]),
    [...Array(11).fill('failure'), 'no'],
    'the default branch, then those that failed',
  )
  t.match(body, 'id="find"')
  t.equal((await anonymous.get('/alice/hostile?ref=branch-299')).status, 200)

  const few = await create('few', 1)
  for (let index = 0; index < 6; index++) few.set(`refs/heads/branch-${index}`, few.commits[0])
  t.match((await anonymous.get('/alice/few')).body, '<summary>1 more branch</summary>')
})

t.test('which branches failed is known for 10 s, however often refs change', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const { id } = await addRepository(store, 'alice/rocket', { commits: 0 })
  const sha = 'a'.repeat(40)
  await addReport({ store, repositoryId: id, sha }, 'ci', 'failure')
  const refsOf = (name: string): Refs => {
    const branch = { kind: 'branch', name, sha, date: null } as const
    return { branches: [branch], tags: [], defaultBranch: name, head: sha, more: false }
  }
  const redBranches = new RedBranches(store)
  const [before, after] = [refsOf('main'), refsOf('trunk')]
  const first = await redBranches.find(id, before)
  await setTimeout(50)
  const again = await redBranches.find(id, before)
  t.equal(again.until, first.until)
  const second = await redBranches.find(id, after)
  t.same([...first.names, ...second.names], ['main', 'trunk'])
  t.ok(first.until <= performance.now() + 9_950, 'a later reading makes the former no younger')
  t.ok(second.until > first.until + 49)
})

t.test('a badge shows the state to everyone, and nothing of what is private', async (t) => {
  const { create, client, anonymous, server } = await setUp(t)
  const { commits, set, report } = await create('rocket', 2)
  set('refs/heads/next', commits[0])
  const evil = '"><script>\u202Eevil & co\u0001\uFFFF'
  await report(commits[1], { 'ci/build': 'success', 'ci/mac': 'failure', [evil]: 'error' })
  const hidden = await create('hidden', 1, { private: true })
  await hidden.report(hidden.commits[0], { 'ci/build': 'success' })
  await create('empty', 0)
  const badge = (query = '', name = 'rocket', options = {}) =>
    anonymous.get(`/alice/${name}/badge.svg${query}`, options)
  const message = (body: string) => /<title>([^<]*)<\/title>/.exec(body)?.[1]

  const { status, headers, body } = await badge()
  t.equal(status, 200)
  t.equal(message(body), 'checks: failure')
  const shown = async () => {
    const [, path = ''] = /<img src="([^"]*badge[^"]*)"/.exec((await client.get('/alice/rocket')).body) ?? []
    return path.replaceAll('&amp;', '&')
  }
  const address = await shown()
  t.match(address, /^\/alice\/rocket\/badge\.svg\?ref=main&v=/)
  t.equal(message((await anonymous.get(address)).body), 'checks: failure')
  await report(commits[1], { 'ci/mac': 'success', [evil]: 'success' })
  const mended = await shown()
  t.not(mended, address, 'a cached badge of the page itself does not contradict it')
  t.equal(message((await anonymous.get(mended)).body), 'checks: success')
  await report(commits[1], { 'ci/mac': 'failure', [evil]: 'error' })
  t.equal(await shown(), address)
  t.match(body, 'role="img" aria-label="checks: failure"')
  t.equal(headers.get('content-type'), 'image/svg+xml; charset=utf-8')
  t.equal(headers.get('cache-control'), 'public, max-age=60')
  t.equal(headers.get('cross-origin-resource-policy'), 'cross-origin')
  t.match(headers.get('content-security-policy'), /^default-src 'none';.*sandbox$/)
  t.equal(headers.get('x-content-type-options'), 'nosniff')
  t.equal(headers.get('vary'), null)
  t.equal(headers.get('set-cookie'), null)
  const etag = headers.get('etag') ?? ''
  const unchanged = await badge('', 'rocket', { headers: { 'if-none-match': etag } })
  t.same([unchanged.status, unchanged.body], [304, ''])
  t.equal(unchanged.headers.get('cross-origin-resource-policy'), 'cross-origin')
  t.equal((await anonymous.send('HEAD', '/alice/rocket/badge.svg')).headers.get('etag'), etag)

  t.equal(message((await badge('?ref=main&context=ci/build')).body), 'ci/build: success')
  t.equal(message((await badge('?context=ci%2Fmac')).body), 'ci/mac: failure')
  t.equal(message((await badge('?ref=next')).body), 'checks: no status')
  const unreported = await badge('?ref=next&context=ci/build')
  t.equal(unreported.status, 200, 'a push comes before the reports on it')
  t.equal(message(unreported.body), 'ci/build: no status')
  t.equal((await badge('?ref=next&context=%00')).status, 200)
  const strange = (await badge(`?context=${encodeURIComponent(evil)}`)).body
  t.equal(message(strange), '&quot;&gt;&lt;script&gt;[U+202E]evil &amp; co\u2401\uFFFD: error')
  t.notMatch(strange, /<script|[\p{Bidi_Control}[\p{Cc}--\n]\uffff]/v)

  const unknown = await badge('', 'none')
  t.equal(unknown.status, 404)
  t.equal(message(unknown.body), 'checks: unknown')
  const same = (headers: Headers) =>
    [...headers].filter(([name]) => name !== 'date' && name !== 'x-request-id')
  const others: [query: string, name: string][] = [
    ...['?ref=none', '?ref=none&context=ci/build', '?ref=main~1'].map((query): [string, string] => [
      query,
      'rocket',
    ]),
    ...['hidden', 'empty', '%00', '.git', 'x'.repeat(101)].map((name): [string, string] => ['', name]),
    ['?ref=main&context=ci/build', 'hidden'],
    ['?context=none', 'hidden'],
    ['?context=none', 'empty'],
  ]
  const cookie = client.cookieHeader()
  const authorization = `Bearer ${await server.createToken('alice')}`
  for (const [query, name] of others) {
    const answer = await badge(query, name, { headers: { cookie, authorization, 'if-none-match': '*' } })
    t.equal(answer.status, 404, name + query)
    t.equal(answer.body, unknown.body)
    t.same(same(answer.headers), same(unknown.headers))
  }
  const reserved = await anonymous.get('/assets/x/badge.svg')
  t.same(
    [reserved.status, JSON.parse(reserved.body)],
    [404, { error: new ServiceError('path_unknown').message }],
  )
  t.equal((await anonymous.send('POST', '/alice/rocket/badge.svg')).headers.get('allow'), 'GET, HEAD')

  const page = await anonymous.get('/alice/rocket?ref=next')
  t.match(
    textOf(page.body),
    `[![Commit status](${server.url}/alice/rocket/badge.svg?ref=next)](${server.url}/alice/rocket?ref=next)`,
  )
  t.notMatch((await client.get('/alice/hidden')).body, 'badge.svg', 'no badge for a private repository')
})

t.test('the start page reads no history of a repository in which nothing was ever reported', async (t) => {
  const { create, anonymous } = await setUp(t)
  const quiet = await create('quiet', 3)
  const runs = `${quiet.path}/runs`
  replaceGit(t, `echo "$*" >>${runs}; exec $git "$@"`)
  const row = async () => items((await anonymous.get('/')).body, 'commit')[0]
  t.match(await row(), /^no status alice \/ quiet Subject 2 of quiet/)
  t.notMatch(readFileSync(runs, 'utf8'), /rev-list|first-parent/)
  await quiet.report(quiet.commits[0], { ci: 'failure' })
  t.match(await row(), /^no status alice \/ quiet .* Failing for .* Subject 0 of quiet/)
  t.match(readFileSync(runs, 'utf8'), /rev-list|first-parent/)
})

t.test('pages that are asked for by long addresses take no more memory than others', async (t) => {
  const { store } = await openTestStore(t, sqlite)
  const openPages = new OpenPages(store, new RefLists(createGitQueue()))
  const app = fastify()
  t.teardown(() => app.close())
  decorateClient(app, [], null)
  const etag = '"page"'
  app.get('/', async (request) => {
    request.session = { user: null, path: '/', csrfToken: () => '' }
    if ((await openPages.unchanged(request)) !== null) return 'unchanged'
    const remember = await openPages.watch(request, [])
    remember?.(etag, { version: '', read: async () => '' })
    return 'made'
  })
  const poll = async (url: string) => {
    const { body } = await app.inject({ url, headers: { 'if-none-match': etag } })
    return body
  }
  t.equal(await poll('/'), 'made')
  t.equal(await poll('/'), 'unchanged')
  // Together they are longer than all that may be remembered.
  const junk = 'x'.repeat(1_000_000)
  for (let index = 0; index < 20; index++) t.equal(await poll(`/?${index}${junk}`), 'made')
  t.equal(await poll(`/?19${junk}`), 'unchanged', 'the last one is remembered')
  t.equal(await poll('/'), 'made', 'the first one is not')
})

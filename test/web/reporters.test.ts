import { rmSync } from 'node:fs'
import { Client } from 'pg'
import t from 'tap'
import { listRuledCommits } from '../../src/branches/ruled-commits.ts'
import { createGitQueue } from '../../src/git/history/cached-reads.ts'
import { CommitLog } from '../../src/git/history/log.ts'
import { RefLists } from '../../src/git/history/ref-lists.ts'
import { parseCidr } from '../../src/http/address.ts'
import type { CacheOptions } from '../../src/store/engine.ts'
import type { Prepared } from '../../src/store/prepared.ts'
import { reservationState } from '../../src/store/repositories/reservations.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, postgres } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { gitWith, importGraph } from '../helpers/git.ts'
import { startInstance } from '../helpers/instance.ts'
import { longestStretch, measured } from '../helpers/loop-stretch.ts'
import { createAccount, csrfOf, openPageClient } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'
import { recordStatements } from '../helpers/statements.ts'

const PAGE = '/acme/rocket/settings/checks'
const NAME = { owner: 'acme', name: 'rocket' }

/** Returns the section "Who may report" of a page, without its tags. */
function sectionOf(body: string): string {
  const [, section = ''] = /<section[^>]* aria-labelledby="reporters">(.*?)<\/section>/s.exec(body) ?? []
  return textOf(section)
}

function textOf(html: string): string {
  return html
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll('&#39;', "'")
    .replaceAll(/\s+/g, ' ')
}

for (const database of databases)
  t.test(`${database.name}: an admin reserves contexts in the browser`, async (t) => {
    const server = await startServer(t, { database })
    const { store } = server
    const write = asAdministrator(store)
    for (const name of ['acme', 'ci-bot', 'writer', 'reader', 'locked']) {
      const id = await createAccount(server, name)
      if (name === 'acme') await server.createRepository('acme/rocket', { commits: 32 })
      else await write.collaborators.set(NAME, id, name === 'reader' ? 'read' : 'write')
    }
    await write.users.setLocked('locked', true)
    const { id } = await store.repositories.get('acme', 'rocket')
    const owner = openPageClient(server.url)
    await owner.signIn('acme')
    const send = (change: string, fields: Record<string, string>) =>
      owner.submit(PAGE, PAGE, { seen: 'null', change, ...fields })
    /** Returns the message of the page that follows a form. */
    const done = async (change: string, fields: Record<string, string>) => {
      const { status, headers } = await send(change, fields)
      t.equal(status, 303, `${change} ${JSON.stringify(fields)}`)
      const { body } = await owner.get(headers.get('location') ?? '')
      return { message: /role="status"><bdi>([^<]*)/.exec(body)?.[1], body }
    }
    const list = async () =>
      (await store.reservations.list(id)).map(({ pattern, users }) => [
        pattern,
        ...users.map(({ name }) => name),
      ])

    const log = (await owner.get('/acme/rocket')).body
    const [newest = '', second = '', ...older] = [
      ...new Set([...log.matchAll(/\/commits\/([0-9a-f]{40})/g)].map(([, sha = '']) => sha)),
    ]
    const [third = ''] = older
    const botToken = await server.createToken('ci-bot')
    const writerToken = await server.createToken('writer')
    const report = async (sha: string, token: string, context: string, state: string) =>
      t.equal((await server.report('acme/rocket', sha, { context, state }, token)).status, 201)
    await report(newest, botToken, 'ci/all', 'success')
    await report(second, writerToken, 'ci/all', 'success')
    await report(second, writerToken, "ci/it's", 'failure')
    await report(third, writerToken, 'ci/all', 'pending')

    t.match(sectionOf((await owner.get(PAGE)).body), 'Everybody who may write may report any context.')
    t.equal((await owner.get(PAGE)).body.split('Require a check').length, 2, 'one link to the form')
    for (const [refPattern, required] of [
      ['ma*', ['ci/all', 'lint']],
      ['none', ['lint', 'sign']],
    ] as const)
      await write.rules.set(NAME, { refPattern, required: [...required], bypass: [] })
    const { body: open } = await owner.get(PAGE)
    t.match(
      textOf(open),
      'Everybody who may write may report ci/all (reserve ci/all for ci-bot, writer), lint (reserve lint), sign (reserve sign).',
    )
    t.equal(textOf(open).split('reserve lint').length, 2, 'once, however many rules require it')
    const offered = await owner.get(`${PAGE}?reserve=ci%2Fall`)
    t.match(offered.body, /name="pattern"[^>]*value="ci\/all"/)
    t.match(offered.body, /<textarea id="users"[^>]*>\s*ci-bot\nwriter<\/textarea>/)

    t.equal(
      (await done('reserve', { pattern: 'ci/*', users: 'ci-bot\nreader\r\nlocked\nCI-bot' })).message,
      'Reserved ci/*. locked cannot report: without write access, or locked. reader cannot report: without write access, or locked. ' +
        '1 of the newest 30 commits of branches with rules has a result by somebody else, which stays until it is deleted: see below.',
    )
    t.same(await list(), [['ci/*', 'ci-bot', 'locked', 'reader']])
    const many = Array.from({ length: 20 }, (_, index) => `${'long-'.repeat(18)}${index}`)
    for (const name of many) await createAccount(server, name)
    const reserveForMany = await send('reserve', { pattern: '\u{1f680}'.repeat(200), users: many.join('\n') })
    const cookies = reserveForMany.headers.getSetCookie().map((cookie) => cookie.split(';')[0]?.length ?? 0)
    t.ok(Math.max(...cookies) <= 4_096, 'browsers accept the message')
    const { body: afterMany } = await owner.get(PAGE)
    t.match(afterMany, /role="status"><bdi>Reserved \u{1f680}{200}\. long-.*…<\/bdi>/u)
    await write.reservations.set(NAME, '\u{1f680}'.repeat(200), null)
    const { body: reserved } = await owner.get(PAGE)
    const section = sectionOf(reserved)
    t.match(section, 'ci-bot, locked, reader')
    t.match(section, 'reader cannot report: without write access, or locked.')
    t.match(section, `commit-status-admin status delete acme/rocket ${second} 'ci/all'`)
    t.match(section, `commit-status-admin status delete acme/rocket ${second} 'ci/it'\\''s'`)
    t.notMatch(section, new RegExp(`${newest}|${third}`), 'neither the own result nor what is no result')
    t.notMatch(textOf(reserved), 'may report ci/all')
    t.match(textOf(reserved), 'Everybody who may write may report lint (reserve lint), sign (reserve sign).')
    t.match((await owner.get(`${PAGE}?reserve=ci%2F*`)).body, /ci-bot\nlocked\nreader<\/textarea>/)
    const writer = openPageClient(server.url)
    await writer.signIn('writer')
    t.equal((await writer.get(PAGE)).status, 403)

    const nobodies = Array.from({ length: 21 }, (_, index) => `nobody-${index}`).join('\n')
    for (const [fields, problem] of [
      [{ pattern: 'lint', users: 'nobody' }, /users-error">There is no user &quot;nobody&quot;/],
      [{ pattern: 'lint', users: '' }, /pattern-error">Name at least one user/],
      [{ pattern: 'lint', users: nobodies }, /users-error">21 users; at most 20 are allowed/],
      [{ pattern: '', users: 'ci-bot' }, /pattern-error">The pattern is empty/],
      [{ pattern: 'ci/all', users: 'writer' }, /pattern-error">Nobody could report what both/],
      [{ pattern: 'ci/*', users: 'writer' }, /Somebody else has changed who may report this/],
    ] as const) {
      const { status, body } = await send('reserve', fields)
      t.equal(status, 422)
      t.match(body, problem)
      t.match(body, `${fields.users}</textarea>`, 'what was sent is still there')
    }
    for (const [change, pattern, seen, now] of [
      [
        'reserve',
        'ci/*',
        'null',
        'ci-bot, locked, reader may report ci/* now; reserving it again replaces that.',
      ],
      [
        'open',
        'lint',
        '["writer"]',
        'Everybody who may write may report lint now; reserving it again replaces that.',
      ],
    ] as const) {
      const { body } = await send(change, { pattern, seen, users: 'writer' })
      t.match(body, now)
      const [, current] = [...body.matchAll(/name="seen" value="([^"]*)"/g)].at(-1) ?? []
      const reservation = (await store.reservations.list(id)).find((each) => each.pattern === pattern) ?? null
      t.equal(current?.replaceAll('&quot;', '"'), reservationState(reservation), 'what a second try replaces')
    }
    const events = (await listEvents(store)).filter(({ action }) => action === 'repository.reporters')
    t.match(events, [{ details: { pattern: 'ci/*', users: ['ci-bot', 'locked', 'reader'], from: null } }])

    await write.users.delete('ci-bot')
    await createAccount(server, 'ci-bot')
    await store.engine.kysely
      .updateTable('users')
      .set((eb) => ({ created_at: eb('created_at', '+', 1) }))
      .where('name', '=', 'ci-bot')
      .execute()
    t.match(sectionOf((await owner.get(PAGE)).body), `${newest} 'ci/all'`, 'another user has the name now')
    t.same(await list(), [['ci/*', 'locked', 'reader']])
    const seen = JSON.stringify(['locked', 'reader'])
    t.equal(
      (await done('open', { pattern: 'ci/*', seen })).message,
      'Everybody who may write may report ci/* again.',
    )
    t.same(await list(), [])
    t.equal((await send('open', { pattern: 'ci/*', seen })).status, 422, 'twice')
  })

t.test('the page of many results and patterns does not block the server', async (t) => {
  const server = await startServer(t)
  const { store } = server
  const write = asAdministrator(store)
  await createAccount(server, 'acme')
  const { id, commits } = await server.createRepository('acme/rocket', { commits: 30 })
  for (const sha of commits)
    await Promise.all(
      Array.from({ length: 400 }, (_, index) =>
        store.statuses.report({
          repositoryId: id,
          sha,
          context: `ci/a-rather-long-name-of-a-check/${index}`,
          state: 'success',
        }),
      ),
    )
  const patterns = (start: string) =>
    Array.from({ length: 19 }, (_, index) => `${start}${'*a'.repeat(5)}*r${'*e'.repeat(index % 3)}*${index}x`)
  for (const refPattern of ['main', 'm*', 'ma*', 'mai*', '*n'])
    await write.rules.set(NAME, { refPattern, required: ['last', ...patterns(`${refPattern}*`)], bypass: [] })
  const bot = { id: await createAccount(server, 'ci-bot'), name: 'ci-bot' }
  for (const pattern of ['ci/*', ...patterns('ci/')]) await write.reservations.set(NAME, pattern, [bot])
  for (const [index, sha] of commits.slice(0, 6).entries()) {
    const name = `user-${index}`
    await write.collaborators.set(NAME, await createAccount(server, name), 'write')
    const token = await server.createToken(name)
    t.equal((await server.report('acme/rocket', sha, { context: 'last', state: 'error' }, token)).status, 201)
  }
  const instance = await startInstance(t, server.options, {}, measured)
  const owner = openPageClient(instance.url)
  await owner.signIn('acme')
  await longestStretch(instance)
  for (let times = 0; times < 2; times++) t.equal((await owner.get(PAGE)).status, 200)
  const stretch = await longestStretch(instance)
  t.ok(stretch < 250, `${stretch} ms`)

  const { body } = await owner.submit(PAGE, PAGE, {
    change: 'reserve',
    pattern: 'last',
    users: '',
    seen: 'null',
  })
  t.match(body, /<textarea id="users"[^>]*>\s*<\/textarea>/, 'a form that was refused stays as it was sent')
  t.match(textOf(body), /\(reserve \S+ for (?:user-\d, ){4}user-\d(?!,)/, 'at most five users are offered')
  t.equal(body.split('admin status delete').length - 1, 30)
  t.match(body, 'and 11970 more')
})

t.test('a form names few users, however long it is', async (t) => {
  const server = await startServer(t)
  const { store } = server
  await createAccount(server, 'acme')
  const { id, path } = await server.createRepository('acme/rocket')
  const owner = openPageClient(server.url)
  await owner.signIn('acme')
  const same = 'acme\nACME\n'.repeat(4_000)
  const rule = { branch: 'main', required: 'ci', change: 'set' }
  for (const form of [
    { change: 'reserve', pattern: 'ci', users: same },
    { ...rule, bypass: same },
  ]) {
    const statements = recordStatements(t)
    const { status } = await owner.submit(PAGE, PAGE, { seen: 'null', ...form })
    t.equal(status, 303)
    t.ok(statements.length < 100, `${statements.length} statements`)
  }
  t.match(await store.reservations.list(id), [{ users: [{ name: 'acme' }] }])
  t.match(await store.rules.load(id), [{ bypass: [{ name: 'acme' }] }])
  const others = Array.from({ length: 21 }, (_, index) => `nobody-${index}`).join('\n')
  const { status, body } = await owner.submit(PAGE, PAGE, { seen: 'null', ...rule, bypass: others })
  t.equal(status, 422)
  t.match(body, /bypass-error">21 users; at most 20 are allowed/)
  rmSync(path, { recursive: true })
  t.match((await owner.get(PAGE)).body, 'Earlier results of others cannot be listed')
})

t.test('what is reserved is reserved, even if nobody can say what remains', async (t) => {
  const server = await startServer(t, { database: postgres })
  await createAccount(server, 'acme')
  const { id } = await server.createRepository('acme/rocket')
  await asAdministrator(server.store).rules.set(NAME, { refPattern: 'main', required: ['ci'], bypass: [] })
  const owner = openPageClient(server.url)
  await owner.signIn('acme')
  const csrf = csrfOf((await owner.get(PAGE)).body)
  const other = new Client({ connectionString: server.options.databaseUrl ?? '' })
  await other.connect()
  t.teardown(() => other.end())
  await other.query('begin')
  await other.query('lock table statuses')
  const form = { csrf, change: 'reserve', pattern: 'ci', users: 'acme', seen: 'null' }
  const { status } = await owner.send('POST', PAGE, { form })
  await other.query('rollback')
  t.equal(status, 303)
  t.match((await owner.get(PAGE)).body, 'Reserved ci.')
  t.match(await server.store.reservations.list(id), [{ pattern: 'ci', users: [{ name: 'acme' }] }])
})

t.test('the newest commits are those of the newest branches with rules', async (t) => {
  const { createRepository } = await startServer(t)
  const repository = await createRepository('acme/rocket', { commits: 0 })
  // Commits of a second each, the newest last, and a branch at each.
  const shas = importGraph(
    repository.path,
    Array.from({ length: 1_001 }, (_, index) => (index === 0 ? [] : [index - 1])),
  )
  const lines = shas.map((sha, index) => `create refs/heads/b${index} ${sha}\n`)
  gitWith(repository.path, lines.join(''), 'update-ref', '--stdin')
  const queue = createGitQueue()
  const git = { refs: new RefLists(queue), commitLog: new CommitLog(queue) }
  const list = (refPattern: string) =>
    listRuledCommits(git, repository, [{ refPattern, required: ['ci'], bypass: [] }], { address: 'local' })
  t.same(await list('b0'), [], 'of a thousand branches')
  t.same(await list('b1'), [shas[1], shas[0]])
  t.equal((await list('b*'))?.[0], shas.at(-1))
})

t.test('one page after another reads the results of the newest commits', async (t) => {
  const server = await startServer(t, { trustedProxies: [parseCidr('127.0.0.1')] })
  const { engine } = server.store
  const write = asAdministrator(server.store)
  await createAccount(server, 'acme')
  const names = ['rocket', 'engine', 'tank']
  for (const name of names) {
    await server.createRepository(`acme/${name}`, { commits: 30 })
    await write.rules.set({ owner: 'acme', name }, { refPattern: 'main', required: ['ci'], bypass: [] })
  }
  const owner = openPageClient(server.url)
  await owner.signIn('acme')
  const csrf = csrfOf((await owner.get(PAGE)).body)
  const form = { csrf, change: 'reserve', users: 'acme', seen: 'null' }
  const paths = names.map((name) => `/acme/${name}/settings/checks`)
  /** Returns of which repositories statuses were read, each as often as without another in between. */
  const readMeanwhile = async (send: (path: string, headers: Record<string, string>) => Promise<unknown>) => {
    const reads: unknown[] = []
    const { read } = engine
    const record = <Params, Row>(
      query: Prepared<Params, Row>,
      params: Params,
      cache?: CacheOptions<Row>,
    ): Promise<Row[]> => {
      const id = typeof params === 'object' && params && 'repositoryId' in params && params.repositoryId
      if (query.sql.includes('from "statuses"') && id !== reads.at(-1)) reads.push(id)
      return read(query, params, cache)
    }
    const { restore } = t.capture(engine, 'read', record)
    await Promise.all(paths.map((path, index) => send(path, { 'x-forwarded-for': `192.0.2.${index}` })))
    restore()
    return reads
  }
  // Git has listed the commits.
  for (const path of paths) await owner.get(path)
  const ofPages = await readMeanwhile(async (path, headers) =>
    t.equal((await owner.get(path, { headers })).status, 200),
  )
  t.equal(ofPages.length, paths.length)
  const ofForms = await readMeanwhile(async (path, headers) =>
    t.equal((await owner.send('POST', path, { headers, form: { ...form, pattern: 'ci' } })).status, 303),
  )
  t.equal(ofForms.length, paths.length)
})

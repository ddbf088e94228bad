import { rename } from 'node:fs/promises'
import { connect } from 'node:net'
import { sql } from 'kysely'
import t from 'tap'
import { onlyRefWith } from '../../src/web/finding/unknown-name.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { git, gitWith, importCommits } from '../helpers/git.ts'
import { createAccount, openPageClient } from '../helpers/page-client.ts'
import { passTime } from '../helpers/pass-time.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'

const server = await startServer(t, { stalledAfter: 3_600 })
await createAccount(server, 'alice')
await createAccount(server, 'eve')
const anonymous = openPageClient(server.url)
const alice = openPageClient(server.url)
await alice.signIn('alice')
let repositories = 0

/** Creates a repository with three commits. */
async function setUp() {
  const name = `rocket-${++repositories}`
  const { id, commits, path } = await server.createRepository(`alice/${name}`, { commits: 3 })
  const report = (
    sha: string,
    context: string,
    state: 'pending' | 'success' | 'failure' | 'error',
    description: string | null = null,
  ) => server.store.statuses.report({ repositoryId: id, sha, context, state, description, target_url: null })
  const page = (rest: string) => `/alice/${name}/commits/${rest}`
  return { name, repositoryId: id, path, commits, report, page }
}

t.test('short ids, branches and tags redirect to the full id', async (t) => {
  const { name, path, commits, report, page } = await setUp()
  const [first = '', second = '', third = ''] = commits
  git(path, 'branch', 'feature/x-1', first)
  git(path, 'branch', 'größe', second)
  git(path, 'branch', '50%25', first)
  git(path, 'tag', '-a', 'v1', '-m', 'x', second)
  git(path, 'tag', '-a', 'v1-again', '-m', 'x', 'v1')
  git(path, 'tag', 'both', first)
  git(path, 'branch', 'both', second)
  git(path, 'tag', 'a-tree', `${first}^{tree}`)
  git(path, 'branch', third.slice(0, 9), first)
  git(path, 'update-ref', 'refs/heads/refs/heads/inner', first)
  git(path, 'update-ref', 'refs/notes/hidden', first)
  const expected: Record<string, string> = {
    main: third,
    'feature/x-1': first,
    'feature%2Fx-1': first,
    'gr%C3%B6%C3%9Fe': second,
    '50%2525': first,
    v1: second,
    'v1-again': second,
    both: second,
    'refs/heads/inner': first,
    [third.slice(0, 9)]: first,
    [third.slice(0, 10)]: third,
    [second.slice(0, 12).toUpperCase()]: second,
    [`${second.slice(0, 7)}?q=mac&state=failure`]: `${second}?q=mac&state=failure`,
  }
  for (const [name, sha] of Object.entries(expected)) {
    const { status, headers } = await anonymous.get(page(name))
    t.equal(status, 303, name)
    t.equal(headers.get('location'), page(sha), name)
  }
  const lost = '1234567'.padEnd(40, 'a')
  await report(lost, 'ci', 'success')
  t.match(await anonymous.get(page(lost)), { status: 200, body: 'no longer in git' })
  t.equal((await anonymous.get(page(lost.slice(0, 7)))).status, 404, 'git alone knows short ids')

  const unknown = [
    'inner',
    'a-tree',
    'hidden',
    'refs/heads/main',
    'heads/main',
    'main/',
    'HEAD',
    second.slice(0, 6),
  ]
  for (const name of [
    ...unknown,
    'feature',
    'mai?',
    'ma%69*',
    '0000000',
    first.slice(0, 39).replace(/.$/, 'z'),
  ])
    t.equal((await anonymous.get(page(name))).status, 404, name)
  git(path, 'branch', 'feature/x-2', second)
  for (const find of ['feature/', '/', 'main//', '..', '../mian', './main']) {
    const { status, body } = await anonymous.get(`/alice/${name}/commits?find=${find}`)
    t.equal(status, 404, find)
    t.match(body, `There is no commit, branch or tag <strong><bdi>${find}</bdi>`)
    if (find === 'feature/') t.match(body, `<a href="/alice/${name}?ref=feature/x-2">`)
  }
  git(path, 'branch', '--quiet', '-D', 'feature/x-2')
  const { headers } = await anonymous.get(`/alice/${name}/commits?find=+feature/x-1+`)
  t.equal(headers.get('location'), `/alice/${name}?ref=feature/x-1`, 'the field of each page')
  const found: Record<string, string> = {
    'RE/X': `/alice/${name}?ref=feature/x-1`,
    'V&of=checks': `/alice/${name}/checks?ref=v1`,
    'refs/tags/both': `/alice/${name}?ref=refs/tags/both`,
    [second.slice(0, 8)]: page(second.slice(0, 8)),
    [second]: page(second),
    [third.slice(0, 9)]: `/alice/${name}?ref=${third.slice(0, 9)}`,
    e: page('e'),
    nothing: page('nothing'),
    '%25': `/alice/${name}?ref=50%2525`,
    '&of=checks': `/alice/${name}/checks`,
  }
  for (const [find, path] of Object.entries(found))
    t.equal((await anonymous.get(`/alice/${name}/commits?find=${find}`)).headers.get('location'), path, find)
  git(path, 'branch', `revert-${second}`, first)
  const revert = await anonymous.get(`/alice/${name}/commits?find=${second}`)
  t.equal(revert.headers.get('location'), page(second), 'a whole id is one, whatever a branch is called')
  const several = (await anonymous.get(page('e'))).body
  for (const branch of ['feature/x-1', 'gr%C3%B6%C3%9Fe']) t.match(several, `?ref=${branch}"`)
  for (const [find, suggestion] of [
    ['mian', 'main'],
    ['FEAT', 'feature/x-1'],
  ]) {
    const { body } = await anonymous.get(page(find ?? ''))
    t.match(body, `There is no commit, branch or tag <strong><bdi>${find}</bdi>`)
    t.match(body, `<a href="/alice/${name}?ref=${suggestion}">`)
  }
  t.equal((await anonymous.get(`/alice/${name}/commits`)).headers.get('location'), `/alice/${name}`)
  const missing = await anonymous.get(page('f'.repeat(40)))
  t.match(missing, { status: 404, body: '<p>The commit does not exist in this repository.</p>' })
})

t.test('a part of a name leads to a ref only if no other can have it', async (t) => {
  const ref = { kind: 'branch', name: 'main', sha: 'a'.repeat(40), date: null } as const
  const refs = { defaultBranch: 'main', head: ref.sha, branches: [ref], tags: [], more: false }
  t.equal(onlyRefWith(refs, 'AI'), ref)
  t.equal(onlyRefWith({ ...refs, tags: [{ ...ref, kind: 'tag' }] }, 'AI'), null)
  t.equal(onlyRefWith({ ...refs, more: true }, 'AI'), null, 'not all were compared')
})

t.test('users cannot supply revision syntax or options', async (t) => {
  const { commits, page } = await setUp()
  const { hostname, port } = new URL(server.url)
  // A raw connection, because clients normalize paths.
  const ask = (path: string) =>
    new Promise<string>((resolve, reject) => {
      const socket = connect(Number(port), hostname)
      let text = ''
      socket.setEncoding('latin1').on('data', (chunk) => {
        text += chunk
      })
      socket.on('error', reject).on('close', () => resolve(text.slice(9, 12)))
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
    })
  const first = commits[0] ?? ''
  const attacks = [
    ':/Commit',
    ':/x',
    '@',
    '@{1}',
    '@{-1}',
    'main@{0}',
    '-v',
    '--help',
    '--all',
    '--batch',
    '..',
    '%2e%2e',
  ]
  const syntax = [
    `${first}%5E%7Bcommit%7D`,
    'a%5E%7Bcommit%7D',
    'main%5E',
    'main~1',
    'main..v1',
    'main:',
    '%00',
    'main%00',
    '%0A',
    'main%0a',
  ]
  for (const attack of [
    ...attacks,
    ...syntax,
    'main.lock',
    `${'x/'.repeat(2_000)}x`,
    '%F0%9F%9A%80',
    '*',
    'm%5Bain',
    '%5C',
  ])
    t.equal(await ask(page(attack)), '404', attack)
})

t.test('a short id that fits several commits needs more digits', async (t) => {
  const { path, page } = await setUp()
  const tree = git(path, 'hash-object', '-t', 'tree', '-w', '/dev/null')
  // These messages were searched for: the ids begin with the same 7 digits.
  const shas = ['15880', '37917'].map((message) => {
    const text = `tree ${tree}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n${message}`
    return gitWith(path, text, 'hash-object', '-t', 'commit', '-w', '--stdin')
  })
  const [sha = ''] = shas
  t.same(
    shas.map((id) => id.slice(0, 7)),
    ['656f68c', '656f68c'],
  )
  t.match(await anonymous.get(page('656F68C')), {
    status: 422,
    body: '<p>Several commits begin with 656f68c. Use more digits.</p>',
  })
  t.equal((await anonymous.get(page(sha.slice(0, 8)))).headers.get('location'), page(sha))
})

t.test('names are resolved after the access check', async (t) => {
  const { commits } = await server.createRepository('alice/secret', { private: true })
  const eve = openPageClient(server.url)
  await eve.signIn('eve')
  for (const name of ['main', 'nope', commits[0]?.slice(0, 7), commits[0], '--help']) {
    for (const repository of ['secret', 'missing']) {
      const path = `/alice/${repository}/commits/${name}`
      t.equal((await eve.get(path)).status, 404, path)
      t.equal((await anonymous.get(path)).headers.get('location'), `/login?next=${encodeURIComponent(path)}`)
      t.equal((await eve.get(`/alice/${repository}/checks?ref=${name}`)).status, 404, path)
      t.equal((await eve.poll(path)).status, 404, path)
    }
  }
})

t.test('a commit is described, and failures come first', async (t) => {
  const { name, path, commits, report, page } = await setUp()
  const [parent = '', , tip = ''] = commits
  const message = `Fix\u202e the \u0007bell\n\nBecause it rang.\n\tTwice.`
  const sha = git(path, 'commit-tree', `${tip}^{tree}`, '-p', parent, '-p', tip, '-m', message)
  git(path, 'branch', 'fix/bell', sha)
  git(path, 'tag', 'v2', sha)
  for (let index = 0; index < 30; index++) await report(sha, `pass ${index}`, 'success')
  await report(sha, 'wait', 'pending')
  await report(sha, 'ci/mac', 'failure', 'out of memory')
  await report(sha, 'ci/abort', 'error')
  const { body } = await anonymous.get(page(sha))
  t.match(body, `<title>✗ 2 failed · ${name}@${sha.slice(0, 7)}</title>`)
  t.match(body, 'href="/assets/icon-failure.svg"')
  t.match(body, '<bdi>Fix[U+202E] the ␇bell</bdi>')
  t.match(body, 'Because it rang.\n\tTwice.')
  for (const id of [parent, tip]) t.match(body, `href="${page(id)}"`)
  t.match(body, /branch <\/span><bdi>fix\/bell<\/bdi>/)
  t.match(body, /tag <\/span><bdi>v2<\/bdi>/)
  t.match(body, /2 failed<.*1 pending<.*30 passed</s)
  const order = [...body.matchAll(/<span class="name">(?:<[^>]+>)*([^<]+)</g)].map(([, context]) => context)
  t.same(order.slice(0, 4), ['ci/abort', 'ci/mac', 'wait', 'pass 0'])
  t.match(body, /<details class="section" id="passed" ?><summary>/, 'many passed checks are folded')

  const few = await anonymous.get(page(`${sha}?state=pending`))
  t.match(few.body, '<bdi>wait</bdi>')
  t.notMatch(few.body, '<bdi>ci/mac</bdi>')
  t.notMatch(few.body, 'href="#failed"', 'nothing to skip to')
  const found = await anonymous.get(page(`${sha}?q=MEMORY`))
  t.match(found.body, '<bdi>ci/mac</bdi>')
  t.notMatch(found.body, '<bdi>wait</bdi>')
  t.match(found.body, 'value="MEMORY"')
  t.match(found.body, /<a class="skip" href="#failed">.*<ul id="failed"/s)
  t.match(found.body, '>Context or description contains</label>')
  t.match((await anonymous.get(page(`${sha}?q=nothing&q=x`))).body, 'No check matches the filter.')
  t.match(
    (await anonymous.get(page(`${sha}?q=%22%3E%3Cscript%3E&state=x`))).body,
    'value="&quot;&gt;&lt;script&gt;"',
  )

  const silent = await alice.get(page(parent))
  t.match(silent.body, new RegExp(`curl -X POST http://[^/]+/api/v1/repos/alice/${name}/statuses/${parent}`))
  t.match(silent.body, `<title>no status · ${name}@`)
  t.notMatch((await anonymous.get(page(parent))).body, 'curl', 'only for those who may report')
  t.notMatch(silent.body, 'live.js?', 'no cache key')
})

t.test('the size of a message is bounded', async (t) => {
  const { path, page } = await setUp()
  const [sha = ''] = importCommits(path, 1, () => 'long '.repeat(100_000))
  const { body } = await anonymous.get(page(sha))
  t.ok(body.length < 64 * 1024, `${body.length} characters`)
  t.match(body, '<bdi>long long')
})

t.test('a pending check without a recent report is stalled', async (t) => {
  const { name, commits, report, page } = await setUp()
  const [sha = ''] = commits
  for (const context of ['fresh', 'old', 'done']) await report(sha, context, 'pending')
  const back = (seconds: number) =>
    server.store.engine.kysely
      .updateTable('statuses')
      .set((eb) => ({ pending_at: eb('pending_at', '-', seconds) }))
      .where('sha', '=', sha)
      .execute()
  await back(300 + 3_700)
  await report(sha, 'done', 'success')
  await report(sha, 'unknown', 'success')
  await server.store.engine.kysely
    .updateTable('statuses')
    .set((eb) => ({ updated_at: eb('updated_at', '-', 3_700), created_at: eb('created_at', '-', 90_000) }))
    .where('context', '!=', 'fresh')
    .execute()
  const { body } = await anonymous.get(page(sha))
  const row = (context: string) =>
    body.split('<li').find((text) => text.includes(`<bdi>${context}</bdi>`)) ?? ''
  t.match(row('old'), /stalled<\/span>.*1 hour ago/s)
  t.notMatch(row('fresh'), 'stalled')
  t.notMatch(row('done'), 'stalled')
  t.match(row('done'), '>5 min · <time', 'how long it took since the last pending')
  t.match(row('unknown'), /<span class="faint"><time/)
  t.match((await server.read(`alice/${name}`, sha)).json, { state: 'pending' }, 'the state is the same')
})

t.test('a page asks for its changes', async (t) => {
  const { path, commits, report, page } = await setUp()
  const [sha = ''] = commits
  await report(sha, 'ci/mac', 'pending')
  const poll = (etag?: string | null, query = '') => alice.poll(page(sha) + query, etag)
  const first = await poll()
  t.equal(first.status, 200)
  t.match(first.headers.get('etag'), /^W\//)
  t.equal(first.headers.get('set-cookie'), null)
  t.notMatch(first.body, /csrf|<html/)
  t.match(first.body, /<bdi>ci\/mac<\/bdi>/)
  t.match(first.body, ' data-pending')
  const same = await poll(first.headers.get('etag'))
  t.same([same.status, same.body], [304, ''])
  t.not((await poll(null, '?state=failure')).headers.get('etag'), first.headers.get('etag'))
  await report(sha, 'ci/mac', 'pending', 'half done')
  const second = await poll(first.headers.get('etag'))
  t.equal(second.status, 200, 'a new description is a change')
  await report(sha, 'ci/mac', 'failure')
  const third = await poll(second.headers.get('etag'))
  t.equal(third.status, 200)
  t.notMatch(third.body, ' data-pending')
  git(path, 'branch', 'topic', sha)
  const fourth = await poll(third.headers.get('etag'))
  t.equal(fourth.status, 200, 'a new branch is a change')
  t.match(fourth.body, /<bdi>topic<\/bdi><\/a> newest commit/)
  git(path, 'update-ref', 'refs/heads/topic', commits[1] ?? '')
  t.match((await poll(fourth.headers.get('etag'))).body, /<bdi>topic<\/bdi><\/a> newer: /, 'it moves on')
  git(path, 'tag', 'topic', sha)
  t.match((await poll()).body, '?ref=refs/tags/topic"', 'the name is also a branch')
  t.equal((await openPageClient(server.url).poll(page(sha))).headers.get('set-cookie'), null)

  const stalling = await poll()
  await report(sha, 'wait', 'pending')
  const waiting = await poll(stalling.headers.get('etag'))
  t.match(waiting, { status: 200, body: /^(?!.*badge stalled)/s })
  const later = Date.now() + 3_700_000
  t.capture(Date, 'now', () => later)
  t.match((await poll(waiting.headers.get('etag'))).body, 'badge stalled', 'a check that stalls')
})

t.test('a page says where a commit is, and since when a check fails', async (t) => {
  const { name, path, commits, report, page } = await setUp()
  const [first = '', second = '', tip = ''] = commits
  git(path, 'branch', 'other', second)
  const shas = importCommits(path, 2, (index) => `Topic ${index}`)
  git(path, 'branch', 'topic', shas[1] ?? '')
  await report(first, 'ci/mac', 'success')
  await report(second, 'ci/mac', 'failure')
  await report(tip, 'ci/mac', 'error')
  await report(tip, 'ci/new', 'failure')
  const text = async (sha: string) =>
    (await anonymous.get(page(sha))).body.replace(/<[^>]*>/g, '').replace(/\s+/g, ' ')
  const link = (sha: string) => `<a href="${page(sha)}"><code>${sha.slice(0, 7)}</code></a>`
  const newest = await text(tip)
  t.match(newest, 'branch main newest commit · checks of main')
  t.match(newest, `Fails since ${second.slice(0, 7)}, 1 commit ago`)
  t.notMatch(newest, 'or earlier', 'nothing about a check that only this commit has')
  // The first pages may not wait for git.
  await until(async () => (await anonymous.get(page(second))).body.includes('newer: '))
  const { body } = await anonymous.get(page(second))
  t.match(body, `newer: ${link(tip)}`, 'of main')
  t.match(body, 'First failed here', 'which need not lead to itself')
  t.match(body, `href="/alice/${name}/checks?ref=other">checks`)
  t.ok(body.indexOf('<bdi>main</bdi>') < body.indexOf('<bdi>other</bdi>'), 'the default branch first')
  await report(shas[1] ?? '', 'ci/mac', 'failure')
  await report(shas[1] ?? '', 'ci/new', 'success')
  const topic = await text(shas[1] ?? '')
  t.match(topic, `Fails on main since ${second.slice(0, 7)}, 1 commit ago`)
  t.notMatch(topic, 'Fails since')
  t.notMatch(topic, 'branch main')
  const fork = git(path, 'commit-tree', `${tip}^{tree}`, '-p', tip, '-m', 'Fork')
  git(path, 'branch', 'fork', fork)
  await report(fork, 'ci/mac', 'failure')
  const forked = await text(fork)
  t.match(forked, `Fails on main since ${second.slice(0, 7)}, 1 commit ago`)
  t.notMatch(forked, 'Fails since', 'the same commit is named once')
  git(path, 'branch', '-D', 'fork')
  await report(tip, 'ci/mac', 'success')
  t.match(await text(shas[1] ?? ''), 'Passes on main')
  git(path, 'update-ref', 'refs/heads/main', shas[1] ?? '')
  t.match(await text(shas[1] ?? ''), 'branch main newest commit', 'a push takes effect at once')
  for (const branch of ['one', 'two', 'three']) git(path, 'branch', branch, tip)
  t.match((await anonymous.get(page(tip))).body, '<details><summary>and 1 more</summary>', 'of its branches')
})

t.test('a verdict is a sentence beside the combined state, where a rule still applies', async (t) => {
  const { name, path, commits, report, page } = await setUp()
  const [, middle = '', sha = ''] = commits
  const repository = await server.store.repositories.get('alice', name)
  const require = (refPattern: string, ...required: string[]) =>
    asAdministrator(server.store).rules.set(repository, { refPattern, required, bypass: [] })
  const read = async (path: string) => (await anonymous.get(path)).body
  for (const commit of commits) await report(commit, 'ci/mac', 'success')
  await report(sha, 'docs', 'success')
  const before = await anonymous.poll(page(sha))
  t.notMatch(before.body, /badge required|not reported|data-pending/i)
  await require('main', 'ci/*', 'lint<&')
  for (let index = 0; index < 13; index++) await require(`release/${index}*`, 'lint<&', 'e2e')

  const changed = await anonymous.poll(page(sha), before.headers.get('etag'))
  t.equal(changed.status, 200, 'a rule changes the page')
  t.match(changed.body, ' data-pending', 'a report that is missing may come')
  t.match(changed.body, 'data-tab="● 2 passed, 1 not reported · ', 'so that the title follows')
  const verdict = '<strong><bdi>main</bdi>: not deployable</strong>'
  for (const body of [changed.body, await read(page(sha))]) {
    t.match(body, /badge pending">pending<\/span>.*1 not reported<.*2 passed</s)
    t.equal(body.split('deployable</strong>').length, 2, 'one sentence')
    t.match(body, verdict)
    t.notMatch(body, /badge success|release\//)
    t.equal(body.split('badge required').length - 1, 1, 'what has passed is not marked')
    t.match(body, 'class="facts tip pending"')
    t.match(body, /id="missing".*>not reported<.*name"><bdi>lint&lt;&amp;</s)
  }
  for (const path of ['', '/checks', `/commits/${sha}`])
    t.match(
      await read(`/alice/${name}${path}`),
      /<title>● 2 passed, 1 not reported.*icon-pending\.svg/s,
      path,
    )
  t.notMatch(await read(page(middle)), /has not reported|not reported<|data-pending/, 'history stays')
  const overview = await read(`/alice/${name}`)
  t.notMatch(overview, 'icon pending', 'a new rule repaints no history')
  t.equal(overview.split(verdict).length, 2)
  t.match(overview, /class="tip pending".*badge pending.*<dt><bdi>main<\/bdi><\/dt>.*8 more rules/s)
  const filtered = await read(page(`${sha}?q=LIN`))
  t.match(filtered, '<bdi>lint&lt;&amp;</bdi>')
  t.notMatch(filtered, /No check matches|name"><bdi>docs/)
  t.notMatch(await read(page(`${sha}?state=success`)), 'name"><bdi>lint')

  await report(sha, 'lint<&', 'success')
  await report(sha, 'ci/deploy', 'pending')
  t.match(await read(page(sha)), /ci\/deploy<\/bdi> <span class="badge required">required</)
  await require('main', 'lint<&')
  await report(sha, 'ci/deploy', 'failure')
  const start = async () => (await read('/')).split('<li').find((item) => item.includes(`>${name}</a>`))
  t.match(await start(), /failure">failure<\/span>.*class="failed"><span><bdi>ci\/deploy/s)
  t.notMatch(await start(), /icon success|has not reported/)
  t.match(await read(page(sha)), /✗ 1 failed.*badge failure.*main<\/bdi>: deployable<\/strong>/s)
  await require('main', 'e2e')
  t.notMatch(await start(), 'has not reported', 'the state and what failed say it')
  t.match(await read(page(sha)), '<title>✗ 1 failed · ', 'a title says the worst alone')
  t.match(await read(page(sha)), 'class="facts tip failure"', 'and so does the color')
  await report(sha, 'ci/deploy', 'success')
  t.match(await start(), /icon pending.*<bdi>e2e has not reported<\/bdi>/s)
  t.match(await read('/?state=running'), `>${name}</a>`)
  t.notMatch(await read('/?state=passing'), `>${name}</a>`)

  const topic = git(path, 'commit-tree', '-m', 'Topic', '-p', sha, `${sha}^{tree}`).trim()
  git(path, 'branch', 'feature/x', topic)
  t.match(
    await read(page(topic)),
    /main<\/bdi>: not deployable.*no checks have reported.*1 not reported.*id="missing"/s,
  )
  git(path, 'branch', 'release/0\u202e', sha)
  const release = await read(`/alice/${name}?ref=${encodeURIComponent('release/0\u202e')}`)
  t.match(release, /release\/0\[U\+202E]<\/bdi>: not deployable.*1 not reported<.*<bdi>e2e</s)
  for (const attribute of ['aria-label="State of', 'alt="Badge with the state of'])
    t.match(release, `${attribute} release/0[U+202E]"`)
  t.match(release, '<option value="release/0\u202e" label="release/0[U+202E]">', 'the value is exact')
  git(path, 'tag', 'v1', middle)
  git(path, 'branch', 'past', middle)
  for (const ref of ['v1', 'past']) t.notMatch(await read(`/alice/${name}?ref=${ref}`), 'deployable', ref)
})

t.test('polling does not extend a session', async (t) => {
  const { commits, page } = await setUp()
  const { kysely } = server.store.engine
  const seen = async () => {
    const { rows } = await sql<{ at: number }>`select max(seen_at) as at from sessions`.execute(kysely)
    return rows[0]?.at ?? 0
  }
  await kysely
    .updateTable('sessions')
    .set((eb) => ({ seen_at: eb('seen_at', '-', 4_000) }))
    .execute()
  const before = await seen()
  t.equal((await alice.poll(page(commits[0] ?? ''))).status, 200)
  t.equal(await seen(), before)
  await alice.get(page(commits[0] ?? ''))
  t.ok((await seen()) > before, 'a visit does')
})

t.test('statuses are shown when the files of a repository cannot be opened', async (t) => {
  const { path, report, commits, page } = await setUp()
  const [sha = '', silent = ''] = commits
  await report(sha, 'ci/mac', 'failure')
  await rename(path, `${path}.away`)
  const { status, body } = await anonymous.get(page(sha))
  t.equal(status, 200)
  t.match(body, '<bdi>ci/mac</bdi>')
  t.match(body, 'cannot be opened')
  t.equal((await anonymous.get(page(silent))).status, 503)
  t.equal((await anonymous.get(page('main'))).status, 503)
})

t.test('the checks of a branch or tag', async (t) => {
  const { name, path, commits, report } = await setUp()
  git(path, 'tag', 'v1', commits[0] ?? '')
  git(path, 'tag', 'main', commits[0] ?? '')
  await report(commits[0] ?? '', 'ci/\u202emac', 'failure')
  const checks = (query: string) => anonymous.get(`/alice/${name}/checks${query}`)
  for (const query of ['', '?ref=', '?ref=main', '?ref=v1']) {
    const { status, body } = await checks(query)
    t.equal(status, 200, query)
    t.match(body, '<bdi>ci/[U+202E]mac</bdi>')
    t.match(body, `<code>${commits[0]?.slice(0, 7)}</code>`)
  }
  for (const [query, ref] of [
    ['', 'main'],
    ['?ref=v1', 'v1'],
    ['?ref=refs/tags/main', 'refs/tags/main'],
  ]) {
    const { body } = await checks(query ?? '')
    t.match(body, `<a href="/alice/${name}?ref=${ref}">`, 'a link back to the same ref')
    t.match(body, `<option value="${ref}"`)
    const repository = await anonymous.get(`/alice/${name}${query}`)
    t.match(repository.body, `<a href="/alice/${name}/checks?ref=${ref}">`)
    t.match(repository.body, `badge.svg?ref=${ref}`)
  }
  for (const wrong of ['nope', ':/Commit', '-v', '--all', '%00', 'main~1', commits[0] ?? ''])
    t.equal((await checks(`?ref=${wrong}`)).status, 404, wrong)
  await server.createRepository('alice/empty', { commits: 0 })
  t.match((await anonymous.get('/alice/empty/checks')).body, 'No statuses have been reported')
})

t.test('whoever may write asks for another run of a check that a run has claimed', async (t) => {
  const { name, repositoryId, path: repository, commits, page } = await setUp()
  const sha = commits.at(-1) ?? ''
  const path = page(sha)
  const fullName = `alice/${name}`
  const worker = await server.createToken('alice')
  const send = (context: string, state: string, more = {}) =>
    server.report(fullName, sha, { context, state, ...more }, worker)
  const claim = (state: string, run: string) => send('ci', state, { run, claim: 300, elapsed: 0 })
  const stored = async () => (await server.read(fullName, sha)).json.statuses ?? []
  const buttons = (body: string) => [...body.matchAll(/name="status" value="([^"]+)"/g)].map(([, id]) => id)
  await send('lint', 'success')
  const { json } = await claim('pending', 'one')
  const id = json.id ?? ''

  const { body } = await alice.get(path)
  t.match(body, /last heard of <time/)
  t.same(buttons(body), [id], 'no run has claimed the other check')
  t.same(buttons((await anonymous.get(path)).body), [])
  const eve = openPageClient(server.url)
  await eve.signIn('eve')
  t.same(buttons((await eve.get(path)).body), [])
  t.match(await eve.submit(path, path, { status: id }), { status: 403, body: /read access/ })
  const live = await alice.poll(path)
  const again = await alice.poll(path, live.headers.get('etag'))
  t.equal(again.status, 304, 'a form does not make an open page change')

  const before = await stored()
  for (const status of ['', 'x', before.find(({ context }) => context === 'lint')?.id ?? ''])
    t.match(await alice.submit(path, path, { status }), {
      status: 422,
      body: /No worker has claimed this check/,
    })
  const other = page(commits[0] ?? '')
  t.match(await alice.submit(path, other, { status: id }), { status: 422 }, 'of another commit')
  t.same(await stored(), before, 'a refused form changes nothing')

  const sent = await alice.submit(path, path, { status: id })
  t.same([sent.status, sent.headers.get('location')], [303, path])
  const asked = await alice.get(path)
  t.match(asked.body, /Another run of ci was asked for\./)
  t.match(asked.body, /by alice/)
  t.same(buttons(asked.body), [], 'it is asked for already')
  t.notMatch(asked.body, 'last heard of')
  t.match(await stored(), [
    { id, context: 'ci', state: 'pending', description: 'Another run was asked for', target_url: null },
    { context: 'lint', state: 'success' },
  ])
  t.equal((await claim('success', 'one')).status, 409, 'the run in progress has lost the check')
  await passTime(server.store, 2, { context: 'ci' })
  t.equal((await claim('pending', 'two')).status, 201)
  await claim('failure', 'two')
  t.same(buttons((await alice.get(path)).body), [id], 'a result can be asked for again')
  await alice.submit(path, path, { status: id })
  const rows = await server.store.engine.kysely.selectFrom('reporters').selectAll().execute()
  t.match(
    rows.filter(({ token_name }) => token_name === ''),
    [{ user_name: 'alice', token_id: /^user \d+$/ }],
    'one reporter stands for a user without a token',
  )
  const [row] = await server.store.statuses.listWithReporters({ repositoryId, sha })
  t.match(row, { reporter_user: 'alice', reporter_token: null, run: null, claim_run: 'two' })

  await passTime(server.store, 2, { context: 'ci' })
  await claim('pending', 'three')
  await claim('success', 'three')
  const [passed] = await stored()
  t.same(buttons((await alice.get(path)).body), [id])
  git(repository, 'update-ref', 'refs/heads/main', commits[0] ?? '')
  t.same(buttons((await alice.get(path)).body), [], 'no worker would take it')
  const refused = await alice.submit(path, path, { status: id })
  t.match(refused, { status: 422, body: /newest commit of no branch/ })
  t.notMatch(refused.body, /live\.js/, 'which stays on the page')
  t.same((await stored())[0], passed, 'its result stays')
})

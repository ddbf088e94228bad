import t from 'tap'
import { ADMINISTRATOR } from '../../src/domain/actors.ts'
import { browserName } from '../../src/web/pages/account/browser-name.ts'
import { createAccount, csrfOf, openPageClient, PASSWORD } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'
import { insertSession } from '../helpers/sessions.ts'

const PAGE = '/settings/account'
const NEW = 'a new passphrase'

t.test('a new password must follow the rules, and the form says what is wrong', async (t) => {
  const server = await startServer(t, { budget: { limit: 3, window: 300 } })
  await createAccount(server, 'Alice')
  const client = openPageClient(server.url)
  await client.signIn('alice')
  const change = (form: Record<string, string>) =>
    client.submit(PAGE, `${PAGE}/password`, { current: PASSWORD, password: NEW, again: NEW, ...form })
  const refused = async (password: string, message: string) => {
    const { status, body } = await change({ password, again: password, current: 'never compared' })
    t.same([status, body.includes(message)], [422, true], message)
  }
  await refused('short', 'The password is 5 characters long; at least 8 are required.')
  await refused('x'.repeat(1025), 'at most 1024 are allowed')
  await refused('Password123', 'one of the 10,000 most common ones')
  await refused('trulyALICE-99', 'contains the user name &quot;Alice&quot;')
  t.match((await change({ again: 'a mistyped passphrase' })).body, 'The two passwords differ.')
  t.equal(await server.store.failures.find('127.0.0.1'), null, 'none of these is an attempt')

  t.match((await change({ current: 'wrong' })).body, 'This is not your current password.')
  const answer = await change({})
  t.equal(answer.status, 200)
  t.match(answer.body, '0 other sessions were')
  t.match(answer.body, 'You have no tokens.')
  t.equal(
    (await client.send('POST', `${PAGE}/sessions/end-others`, { form: { csrf: csrfOf(answer.body) } }))
      .status,
    303,
    'the forms of the answer belong to the new cookie',
  )
  t.equal((await openPageClient(server.url).signIn('alice')).status, 401, 'the old password no longer works')
  t.match(await server.store.failures.find('127.0.0.1'), { failures: 2 })
  await change({ current: 'wrong' })
  t.equal((await change({ current: NEW })).status, 429, 'the budget is spent')
})

t.test('forms need the token of the user', async (t) => {
  const server = await startServer(t)
  const id = await createAccount(server, 'alice')
  await insertSession(server.store, 'f'.repeat(64), id)
  const client = openPageClient(server.url)
  await client.signIn('alice')
  const other = openPageClient(server.url)
  await other.get('/login')
  const foreign = csrfOf((await other.get('/login')).body)
  const actions = ['password', `sessions/${'f'.repeat(16)}/end`, 'sessions/end-others']
  for (const action of actions) {
    for (const form of [{}, { csrf: foreign }] as Record<string, string>[]) {
      const fields = { current: PASSWORD, password: NEW, again: NEW, ...form }
      t.equal((await client.send('POST', `${PAGE}/${action}`, { form: fields })).status, 403, action)
    }
    t.equal((await client.get(`${PAGE}/${action}`)).status, 405, `GET ${action}`)
  }
  t.equal((await server.store.sessions.list(id, 10)).length, 2)
})

t.test('shows what browsers and names contain without running or hiding it', async (t) => {
  const server = await startServer(t)
  await createAccount(server, 'alice')
  const client = openPageClient(server.url)
  const headers = { 'user-agent': `<script>\x85 ${'x'.repeat(4_000)}` }
  const form = await client.get('/login')
  await client.send('POST', '/login', {
    headers,
    form: { csrf: csrfOf(form.body), name: 'alice', password: PASSWORD },
  })
  await client.submit('/settings/tokens', '/settings/tokens', {
    name: '<b>\u202eCI',
    scope: 'repo',
    expiry: 'none',
  })
  const { body } = await client.get(PAGE)
  t.match(body, 'title="&lt;script&gt;[U+0085] x')
  t.match(body, '&lt;b&gt;[U+202E]CI')
  t.notMatch(body, /<script>[^<]|<b>|x{256}/)
  t.match(body, 'Unknown browser')
})

t.test('older events are on further pages', async (t) => {
  const server = await startServer(t)
  const id = await createAccount(server, 'alice')
  await createAccount(server, 'bob')
  const carol = { id: await createAccount(server, 'carol'), name: 'carol' }
  const subject = { id, name: 'alice' }
  await server.store.audit.transaction(ADMINISTRATOR, async (change) => {
    const event = { action: 'session.ended', subject } as const
    for (let sessions = 1; sessions < 150; sessions++)
      await change.record({ ...event, details: { sessions } })
    const by = { kind: 'user', user: carol, token: { id: 'f00d', name: 'CI' }, address: '192.0.2.1' } as const
    await change.recordOf(by, { ...event, details: { sessions: 150 } })
  })
  const client = openPageClient(server.url)
  await client.signIn('alice')
  const shown = (body: string) => [...body.matchAll(/sessions=(\d+)/g)].map(([, number]) => Number(number))
  const first = await client.get(PAGE)
  t.same([shown(first.body).length, shown(first.body)[0]], [99, 150], 'the sign-in and 99 others')
  t.match(
    first.body,
    '<bdi>carol</bdi> ended 150 sessions of yours.',
    'another user, whose address and token it does not show',
  )
  t.notMatch(first.body, '192.0.2.1')
  const [, next = ''] = /href="(\/settings\/account\?before=[\d-]+)#events"/.exec(first.body) ?? []
  const second = await client.get(next)
  t.same([shown(second.body)[0], shown(second.body).at(-1)], [51, 1])
  t.notMatch(second.body, 'Older events')
  t.equal((await client.get(`${PAGE}?before=x&before=y`)).status, 200)
  const bob = openPageClient(server.url)
  await bob.signIn('bob')
  t.notMatch((await bob.get(PAGE)).body, 'session.ended', "not another user's")
})

t.test('names browsers', async (t) => {
  for (const [userAgent, name] of [
    ['Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0', 'Firefox on Linux'],
    [
      'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0',
      'Edge on Windows',
    ],
    [
      'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15',
      'Safari on macOS',
    ],
    [
      'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36',
      'Chrome on Android',
    ],
    ['Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) CriOS/140.0 Safari/604.1', 'Chrome on iPhone'],
    ['', 'Unknown browser'],
    [null, 'Unknown browser'],
  ] as const)
    t.equal(browserName(userAgent), name)
})

import Sqlite from 'better-sqlite3'
import t, { type Test } from 'tap'
import { PacketReader } from '../../../src/git-http/push/pkt-line.ts'
import { sqlite } from '../../helpers/databases.ts'
import { listPushes } from '../../helpers/events.ts'
import { git as gitSync } from '../../helpers/git.ts'
import { type ServerOptions, startServer } from '../../helpers/server.ts'
import { until } from '../../helpers/until.ts'
import { basic, commit, createCheckout, git, tryGit } from '../client.ts'
import { blockGit } from '../git-server.ts'
import { beginRpc, EMPTY_PACK, packet, pushBody, servicesOf } from '../raw.ts'

const NONE = '0'.repeat(40)
const CERTIFICATE_END = 'push-cert-end\n'

async function setUp(t: Test, options: ServerOptions = {}) {
  const server = await startServer(t, { database: sqlite, ...options })
  const { path } = await server.createRepository('Owner/Demo', { commits: 0 })
  const token = await server.createToken('owner')
  const url = `${server.url}/owner/demo.git`
  const authorization = basic('x', token)
  const checkout = await createCheckout(t, url)
  const events = () => listPushes(server.store, { repository: 'owner/demo' })
  return {
    server,
    path,
    url,
    authorization,
    checkout,
    tip: () => git(checkout, ['rev-parse', 'HEAD']),
    push: (...args: string[]) => tryGit(checkout, ['push', '--quiet', 'origin', ...args], { authorization }),
    pushes: events,
    /** Sends a push and returns the answer and the details of its event. */
    async send(body: Buffer | string) {
      const before = (await events()).length
      const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
      request.end(body)
      const { status, body: text } = await answer
      const added = (await events()).slice(before).map(({ details }) => details)
      t.ok(added.length < 2, 'at most one event')
      return { status, text: text.toString(), details: added[0] }
    },
  }
}

t.test('a push is one event with the updates that git made', async (t) => {
  const { server, checkout, tip, push, pushes } = await setUp(t)
  const first = await tip()
  await push('HEAD:main', 'HEAD:refs/heads/über')
  const [event] = await pushes()
  t.match(event, {
    actor: 'user',
    user: 'owner',
    token_name: 'test',
    address: '127.0.0.1',
    object: 'Owner/Demo',
    details: {
      updates: [
        { ref: 'refs/heads/main', old: NONE, new: first },
        { ref: 'refs/heads/über', old: NONE, new: first },
      ],
    },
  })

  const second = await commit(checkout)
  await push('HEAD:main', ':refs/heads/über')
  t.same((await pushes())[1]?.details, {
    updates: [
      { ref: 'refs/heads/main', old: first, new: second },
      { ref: 'refs/heads/über', old: first, new: NONE },
    ],
  })

  await git(checkout, ['reset', '--quiet', '--soft', first])
  const other = await commit(checkout)
  await git(`${server.dataDir}/repositories/1.git`, ['config', 'receive.denyNonFastForwards', 'true'])
  t.equal((await push('+HEAD:main', 'HEAD:topic')).code, 1, 'one of two updates is refused')
  t.same((await pushes())[2]?.details, { updates: [{ ref: 'refs/heads/topic', old: NONE, new: other }] })
  t.equal((await push('+HEAD:main')).code, 1)
  await push('HEAD:topic')
  t.equal((await pushes()).length, 3, 'a push that updates nothing is no event')
  t.same(await server.store.pushes.listOpen(0), [])
})

t.test('an event names fifty updates and counts the others', async (t) => {
  const { push, pushes, tip } = await setUp(t)
  const refs = Array.from({ length: 60 }, (_, index) => `HEAD:refs/tags/v${index}`)
  t.equal((await push(...refs)).code, 0)
  const [event] = await pushes()
  t.match(event?.details, { more: 10 })
  t.same(Object.keys(event?.details ?? {}), ['updates', 'more'])
  t.match(JSON.stringify(event?.details), await tip())
})

t.test('events do not depend on what the client asks git to report', async (t) => {
  const { url, authorization, path, tip, push, send, pushes } = await setUp(t)
  await push('HEAD:main', 'HEAD:one', 'HEAD:two')
  const id = await tip()
  const deleted = (name: string) => ({ ref: `refs/heads/${name}`, old: id, new: NONE })
  const created = (name: string) => ({ ref: `refs/heads/${name}`, old: NONE, new: id })
  const commandOf = ({ ref, old, new: next }: { ref: string; old: string; new: string }) =>
    `${old} ${next} ${ref}`

  const bytes = await send(pushBody([`${NONE} ${id} refs/heads/\xfc`], 'object-format=sha1 report-status'))
  t.match(bytes, { details: { updates: [{ ref: 'refs/heads/\ufffd', new: id }] } }, 'not UTF-8')
  const { text, details } = await send(pushBody([`${id} ${id} refs/heads/main`], 'report-status'))
  t.match(text, 'ok refs/heads/main')
  t.equal(details, undefined, 'no ref has moved')

  // Their refs have other values, or could not be created.
  const failing = Array.from(
    { length: 50 },
    (_, index) => `${id} ${id.replace(/^./, '0')} refs/heads/n${index}`,
  )
  for (const [index, capabilities] of ['side-band-64k=x report-status', 'report-status-v2='].entries()) {
    const command = created(`real-${index}`)
    const { details } = await send(pushBody([...failing, commandOf(command)], capabilities))
    t.same(details, { updates: [command] }, capabilities)
  }
  const late = pushBody([
    `${NONE} ${id} refs/heads/late-1`,
    `${NONE} ${id} refs/heads/late-2\0 report-status`,
  ])
  t.same((await send(late)).details, { updates: [created('late-1'), created('late-2')] }, 'git reads it too')

  const gone = beginRpc(url, 'git-receive-pack', authorization)
  gone.answer.catch(() => {})
  const before = (await pushes()).length
  const release = blockGit(t, 'git-receive-pack')
  gone.request.end(pushBody([commandOf(deleted('two'))], 'report-status'))
  await until(() => servicesOf().length > 0)
  gone.request.destroy()
  release()
  await until(() => servicesOf().length === 0)
  await until(
    async () => (await pushes()).length > before || gitSync(path, 'for-each-ref', 'refs/heads/two') !== '',
  )
  t.equal((await pushes()).length > before, gitSync(path, 'for-each-ref', 'refs/heads/two') === '')
})

t.test('git makes no update from an old value that the ref does not have when the push begins', async (t) => {
  const { path, url, authorization, checkout, tip, push, send } = await setUp(t)
  const first = await tip()
  await push('HEAD:main')
  await commit(checkout)
  const second = await tip()
  await push('HEAD:main', 'HEAD:topic')
  const created = (name: string) => ({ ref: `refs/heads/${name}`, old: NONE, new: first })
  const changed = 'ng refs/heads/main the branch has changed; fetch and push again'
  for (const [index, old] of [NONE, first, '1'.repeat(40)].entries()) {
    const command = `${old} ${index === 0 ? second : first.replace(old, second)} refs/heads/main`
    const name = `beside-${index}`
    const { text, details } = await send(
      pushBody([command, `${NONE} ${first} refs/heads/${name}`], 'report-status'),
    )
    t.match(text, changed)
    t.same(details, { updates: [created(name)] }, 'other refs are updated')
    const atomic = await send(pushBody([command, `${NONE} ${first} refs/heads/a`], 'report-status atomic'))
    t.match(atomic.text, changed)
    t.match(atomic.text, 'ng refs/heads/a the push is atomic, and another ref was refused')
    t.equal(atomic.details, undefined)
  }

  const release = blockGit(t, 'git-receive-pack')
  const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
  request.end(pushBody([`${first} ${second} refs/heads/main`], 'report-status'))
  await until(() => servicesOf().length > 0)
  gitSync(path, 'update-ref', 'refs/heads/main', first)
  release()
  t.match((await answer).body.toString(), changed, 'even if it has that value by then')
  t.equal(gitSync(path, 'rev-parse', 'refs/heads/main'), first)
})

t.test('git does not get what the log could not tell', async (t) => {
  const { server, path, tip, push, send } = await setUp(t)
  await push('HEAD:main', 'HEAD:one')
  const id = await tip()
  const refs = gitSync(path, 'for-each-ref')
  gitSync(path, 'symbolic-ref', 'HEAD', 'refs/heads/none')
  const add = `${NONE} ${id} refs/heads/new`
  const refused: [string[], RegExp][] = [
    [[add, `${id} ${NONE} refs/heads/new`], /ng refs\/heads\/new a ref was pushed more than once/],
    // git deletes a ref whose old object it does not know, whatever the value of the ref is.
    [[add, `${'1'.repeat(40)} ${NONE} refs/heads/one`], /ng refs\/heads\/new refs\/heads\/one has changed/],
    [[add, `${NONE} ${NONE} refs/heads/one`], /refs\/heads\/one has changed/],
    [[`${NONE} ${NONE} refs/heads/none`], /refs\/heads\/none has changed/],
  ]
  for (const [commands, message] of refused) {
    for (const capabilities of ['report-status', 'report-status-v2 side-band-64k']) {
      const { status, text, details } = await send(pushBody(commands, capabilities))
      t.equal(status, 200)
      t.match(text, message)
      t.equal(text.includes('\x01'), capabilities.includes('side-band'))
      t.equal(details, undefined)
      t.equal(gitSync(path, 'symbolic-ref', 'HEAD').trim(), 'refs/heads/none', 'nothing is done after it')
    }
  }
  const head = 'certificate version 0.1\npusher x\n\n'
  const certificates = (...lines: string[]) =>
    Buffer.concat([
      Buffer.from(`${['push-cert\0report-status', ...lines].map(packet).join('')}0000`),
      EMPTY_PACK,
    ])
  const malformed = [
    '',
    'nothing',
    '0000'.slice(1),
    packet(add),
    `${packet(add)}0001${EMPTY_PACK}`,
    `${packet('')}0000`,
    `${packet('ERR no')}0000`,
    // Another push may move the ref back before this one has ended.
    pushBody([add]),
    pushBody([add], 'report-statusx delete-refs'),
    // These would only cost time and memory.
    pushBody([`${add}${'x'.repeat(5000)}`], 'report-status'),
    pushBody([`${add}\x01`], 'report-status'),
    // git refuses any name that does not begin with refs/.
    pushBody([add.replace('refs/', 'REFS/')], 'report-status'),
    // To git some of these would be patterns, which can take years to match.
    ...[...'*?[\\~^:\x7f'].map((character) => pushBody([`${add}${character}z`], 'report-status')),
    pushBody([add], `report-status${' '.repeat(5000)}`),
    pushBody([add, `${add}-2\0report-status`], 'report-status'),
    // git joins the texts of all certificates, and ends one at a packet that differs behind a NUL.
    certificates(head, `${add}\n`, CERTIFICATE_END),
    certificates(`${head}${add.slice(0, -3)}`, CERTIFICATE_END, 'push-cert', 'new\n', CERTIFICATE_END),
    certificates(head, `${CERTIFICATE_END}\0x`, add, `${add}-2`),
    `${packet('push-cert')}${packet('x')}`,
    // git reads a line up to its NUL.
    `${['push-cert\0report-status', `${add}\n`, 'push-cert-end\n\0', add, `${add}er`].map(packet).join('')}0000`,
    `${packet(`${id} refs/heads/new`)}0000`,
  ]
  for (const length of ['0001', '0002', '0003'])
    t.throws(() => new PacketReader(() => true).read(Buffer.from(length)), { code: 'malformed_request' })
  for (const body of malformed) t.equal((await send(body)).status, 400, body.toString('latin1'))
  t.equal((await send(Buffer.alloc(9_000_000, packet(`shallow ${id}`)))).status, 413)
  t.equal(gitSync(path, 'for-each-ref'), refs)
  t.same(await server.store.pushes.listOpen(0), [])
})

t.test(
  'a push is refused while the database is locked, and recorded later if it is locked meanwhile',
  async (t) => {
    const { server, path, tip, push, send, pushes, url, authorization } = await setUp(t)
    await push('HEAD:main')
    const id = await tip()
    const refs = gitSync(path, 'for-each-ref')
    const lock = new Sqlite(`${server.dataDir}/commit-status.db`)
    t.teardown(() => lock.close())
    const branch = (name: string) => pushBody([`${NONE} ${id} refs/heads/${name}`], 'report-status')
    lock.exec('begin immediate')
    t.match((await send(branch('refused'))).text, /ng refs\/heads\/refused The service is temporarily/)
    t.equal(gitSync(path, 'for-each-ref'), refs, 'git has not started')
    lock.exec('rollback')

    const release = blockGit(t, 'git-receive-pack')
    const { request, answer } = beginRpc(url, 'git-receive-pack', authorization)
    request.end(branch('late'))
    await until(() => servicesOf().length > 0)
    lock.exec('begin immediate')
    release()
    await until(() => gitSync(path, 'for-each-ref', 'refs/heads/late') !== '')
    t.equal((await pushes()).length, 1)
    lock.exec('rollback')
    t.equal((await answer).status, 200)
    t.match((await pushes())[1]?.details, { updates: [{ ref: 'refs/heads/late', old: NONE, new: id }] })
  },
)

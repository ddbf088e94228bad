import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { startInstance } from '../helpers/instance.ts'
import { startServer } from '../helpers/server.ts'
import { until } from '../helpers/until.ts'
import { basic, commit, createCheckout, git, workFolder } from './client.ts'
import { rpcText, servicesOf, spooledFiles } from './raw.ts'
import { readSlowly, sendSlowly } from './slow-clients.ts'

/** Milliseconds in which others are served: far less than what slow clients take. */
const PROMISE = 40_000

/**
 * A server in a process of its own, with two users and a repository that takes `size` bytes to
 * clone.
 */
async function setUp(t: Test, size: number, environment: Record<string, string> = {}) {
  const { options, createRepository, createToken, createUser, store } = await startServer(t)
  const { path, commits } = await createRepository('alice/demo')
  const tokens = {
    alice: basic('x', await createToken('alice')),
    mallory: basic('x', await createToken('mallory')),
  }
  await asAdministrator(store).collaborators.set(
    { owner: 'alice', name: 'demo' },
    await createUser('mallory'),
    'write',
  )
  const checkout = await createCheckout(t, 'nowhere')
  const head = size > 0 ? await commit(checkout, size) : (commits[0] ?? '')
  if (size > 0) await git(checkout, ['push', '--quiet', path, 'HEAD:refs/heads/large'])
  const instance = await startInstance(t, options, environment)
  const remote = `${instance.url}/alice/demo.git`
  const timed = async (work: () => Promise<unknown>) => {
    const since = performance.now()
    await work()
    return performance.now() - since
  }
  return {
    url: instance.url,
    pid: instance.child.pid ?? 0,
    tokens,
    fetchRequest: rpcText('alice/demo', 'git-upload-pack', {
      body: `0032want ${head}\n00000009done\n`,
      isLast: true,
    }),
    clone: () => timed(() => git(workFolder(t), ['clone', '--quiet', '--bare', remote, 'clone'])),
    push: (authorization: string) =>
      timed(() =>
        git(checkout, ['push', '--quiet', remote, `HEAD:refs/heads/${performance.now()}`], { authorization }),
      ),
  }
}

t.test('a stranger clones beside many slow readers', async (t) => {
  const { url, pid, clone, fetchRequest } = await setUp(t, 6_000_000)
  const clients = { url, addresses: ['127.0.0.2', '127.0.0.3'], connections: 16, bytesPerSecond: 2_000 }
  const readers = readSlowly(clients, fetchRequest)
  t.teardown(readers.stop)
  await until(() => readers.received().every((text) => text.includes('200 OK')))
  await until(() => servicesOf(pid).length === 0)
  t.ok((await clone()) < PROMISE)
  t.equal(readers.open(), 16, 'slow readers keep their connections')
  t.ok(spooledFiles(pid).length > 0)
  readers.stop()
  await until(() => spooledFiles(pid).length === 0)
})

t.test('others push beside slow pushes of a user', async (t) => {
  const { url, pid, tokens, push, clone } = await setUp(t, 0)
  const clients = { url, addresses: ['127.0.0.2', '127.0.0.3'], connections: 8, bytesPerSecond: 1_500 }
  const command = `0070${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/main-of-mine\n`
  const options = { authorization: tokens.mallory, length: 100_000_000 }
  const head = rpcText('alice/demo', 'git-receive-pack', options)
  const pushes = sendSlowly(clients, head, command)
  t.teardown(pushes.stop)
  await until(() => spooledFiles(pid).length === 8)
  t.ok((await push(tokens.alice)) < PROMISE)
  t.ok((await clone()) < PROMISE)
  t.equal(pushes.open(), 8)
  t.same(servicesOf(pid), [])
  pushes.stop()
  await until(() => spooledFiles(pid).length === 0)
})

t.test(
  'when the disk for answers is used up, git waits for slow readers until others need their places',
  async (t) => {
    const environment = { SPOOL_MAX_BYTES: '2000000', GIT_MAX_CHILDREN: '4' }
    const { url, pid, tokens, clone, push, fetchRequest } = await setUp(t, 12_000_000, environment)
    const addresses = ['127.0.0.2', '127.0.0.3', '127.0.0.4']
    const clients = { url, addresses, connections: 3, bytesPerSecond: 2_000 }
    const readers = readSlowly(clients, fetchRequest)
    t.teardown(readers.stop)
    await until(() => servicesOf(pid).length === 3)
    await setTimeout(1_000)
    t.equal(servicesOf(pid).length, 3, 'git is waiting in every place')
    t.equal(readers.open(), 3)
    t.ok((await push(tokens.alice)) < PROMISE, 'places for pushes are others')
    t.equal(readers.open(), 3)
    t.ok((await clone()) < PROMISE, 'the clone itself is larger than what is left')
    await until(() => servicesOf(pid).length < 3)
    await readers.drain()
    const ended = readers.received().filter((text) => text.endsWith('\r\n0\r\n\r\n'))
    t.ok(ended.length < 3, 'an answer that was cut does not end as if it were complete')
  },
)

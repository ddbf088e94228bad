import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { startInstance } from '../helpers/instance.ts'
import { until } from '../helpers/until.ts'
import { commit, createCheckout, git, tryGit, workFolder } from './client.ts'
import { EVERYTHING, finish, HALF_OPEN, startGitServer, watchBackends } from './git-server.ts'
import { backendsOf } from './raw.ts'

t.test('thirty clones of one client at once all succeed', async (t) => {
  const { server } = await startGitServer(t)
  // In a separate process, because starting thirty clients blocks this one.
  const instance = await startInstance(t, server.options)
  const url = `${instance.url}/owner/demo.git`
  const folder = workFolder(t)
  const watched = watchBackends(instance.child.pid)
  const results = await Promise.all(
    Array.from({ length: 30 }, (_, index) => tryGit(folder, ['clone', '--quiet', url, `clone-${index}`])),
  )
  t.same(
    results.filter(({ code }) => code !== 0),
    [],
  )
  t.ok(watched().most <= 6, 'one address holds at most half of the slots for fetches')
})

t.test('a request without a body holds no slot', async (t) => {
  const { begin, clone, push } = await startGitServer(t, { maxChildren: 2 })
  for (let count = 0; count < 16; count++) {
    begin('fetch', '127.0.0.1', '', 100)
    begin('push', '127.0.0.1', '', 100)
  }
  begin('fetch', '127.0.0.1', HALF_OPEN, 100)
  await clone()
  await push()
  await until(() => backendsOf().length === 0)
})

t.test('half-open pushes of one address do not block those of another', async (t) => {
  const { begin, clone, push } = await startGitServer(t)
  const watched = watchBackends()
  for (let count = 0; count < 50; count++) begin('push', '127.0.0.2', HALF_OPEN)
  await until(() => backendsOf().length > 0)
  await push()
  await clone()
  t.ok(watched().most <= 4, 'at most two half-open pushes and the requests of the other address')
})

t.test('fetches cannot use the slots for pushes', async (t) => {
  const { path, url, begin, push, refs } = await startGitServer(t, { maxChildren: 4 })
  const checkout = await createCheckout(t, url)
  const id = await commit(checkout, 12_000_000)
  await git(checkout, ['push', '--quiet', path, 'HEAD:large'])
  const unread = ['127.0.0.2', '127.0.0.3', '127.0.0.4'].map(async (address) => {
    const { request } = begin('fetch', address, `0032want ${id}\n00000009done\n`)
    request.end()
    const [response] = await once(request, 'response')
    response.pause()
  })
  await Promise.all(unread)
  const waiting = refs('127.0.0.5')
  await push()
  t.equal(backendsOf().length, 3, 'no slot is left for another fetch')
  waiting.request.destroy()
})

t.test('one slot serves fetches and pushes in turn', async (t) => {
  const { url, hold, clone, push } = await startGitServer(t, { maxChildren: 1 })
  const watched = watchBackends()
  const held = await hold('127.0.0.2')
  const others = [clone(), push()]
  const anonymous = await fetch(`${url}/info/refs?service=git-receive-pack`)
  t.equal(anonymous.status, 401, 'access is checked first')
  t.equal((await finish(held)).status, 200)
  await Promise.all(others)
  t.equal(watched().most, 1)
})

t.test('addresses take turns, requests of one address keep their order', async (t) => {
  const { begin, hold } = await startGitServer(t, { maxChildren: 4 })
  const held = await hold('127.0.0.2')
  const order: string[] = []
  const waiting: Promise<unknown>[] = []
  for (const name of ['2 first', '2 second', '2 third', '3 first', '3 second', '4 first']) {
    const raw = begin('push', `127.0.0.${name.charAt(0)}`, EVERYTHING)
    raw.request.end()
    waiting.push(raw.answer.then(() => order.push(name)))
    // The requests must arrive at the server in this order.
    await setTimeout(40)
  }
  await finish(held)
  await Promise.all(waiting)
  t.same(order, ['2 first', '3 first', '4 first', '2 second', '3 second', '2 third'])
})

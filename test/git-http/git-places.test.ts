import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { Agent, get, type IncomingMessage, request } from 'node:http'
import { getPriority } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { GitPlaces } from '../../src/git-http/git-places.ts'
import type { GitLimits } from '../../src/git-http/limits.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { startInstance } from '../helpers/instance.ts'
import { until } from '../helpers/until.ts'
import { basic, commit, createCheckout, git, tryGit, workFolder } from './client.ts'
import { blockGit, finish, HALF_OPEN, startGitServer, WHOLE, watchServices } from './git-server.ts'
import { beginRpc, pushBody, servicesOf, spooledFiles } from './raw.ts'

const ZERO = '0'.repeat(40)
const ONE = '1'.repeat(40)

t.test('thirty clones of one client at once all succeed', async (t) => {
  const { server } = await startGitServer(t)
  // In a separate process, because starting thirty clients blocks this one.
  const instance = await startInstance(t, server.options)
  const url = `${instance.url}/owner/demo.git`
  const folder = workFolder(t)
  const watched = watchServices(instance.child.pid)
  const results = await Promise.all(
    Array.from({ length: 30 }, (_, index) => tryGit(folder, ['clone', '--quiet', url, `clone-${index}`])),
  )
  t.same(
    results.filter(({ code }) => code !== 0),
    [],
  )
  t.ok(watched().most <= 6, 'one address holds at most half of the places for fetches')
})

t.test('without free file descriptors git is unavailable, and the server goes on', async (t) => {
  const { server } = await startGitServer(t)
  const { url, child } = await startInstance(t, server.options)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const ask = async (path: string): Promise<number> => {
    const [answer] = await once(get(`${url}${path}`, { agent }), 'response')
    await text(answer)
    return answer.statusCode
  }
  const refs = '/owner/demo.git/info/refs?service=git-upload-pack'
  t.equal(await ask(refs), 200)
  const limitFiles = (count: number | string) =>
    execFileSync('prlimit', [`--pid=${child.pid}`, `--nofile=${count}:`])
  const open = readdirSync(`/proc/${child.pid}/fd`).length
  // Each has a few more for what comes before the pipes to git.
  for (let more = 0; more < 12; more++) {
    limitFiles(open + more)
    t.ok([200, 503].includes(await ask(refs)), `${more} more`)
  }
  limitFiles(1_024)
  t.equal(await ask(refs), 200)
})

t.test('a push whose git cannot be started is refused once', async (t) => {
  const { server, path, authorization } = await startGitServer(t)
  const token = 'x'.repeat(32)
  const { url, child, call } = await startInstance(t, server.options, { METRICS_TOKEN: token })
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.teardown(() => agent.destroy())
  const id = readFileSync(join(path, 'refs/heads/main'), 'utf8').trim()
  const push = async (name: string) => {
    const headers = { authorization, 'content-type': 'application/x-git-receive-pack-request' }
    const pushed = request(`${url}/owner/demo.git/git-receive-pack`, { method: 'POST', agent, headers })
    pushed.end(pushBody([`${ZERO} ${id} refs/heads/${name}`], 'report-status'))
    const [answer] = await once(pushed, 'response')
    return text(answer)
  }
  t.match(await push('first'), /ok refs\/heads\/first\n/)
  const limitFiles = (count: number) => execFileSync('prlimit', [`--pid=${child.pid}`, `--nofile=${count}:`])
  const open = readdirSync(`/proc/${child.pid}/fd`).length
  let refused = 0
  // Some pushes fail before git would be started.
  for (let more = 0; more < 12; more++) {
    limitFiles(open + more)
    if (/ng refs.*unavailable/.test(await push(`with-${more}`))) refused++
  }
  limitFiles(1_024)
  t.ok(refused > 0)
  const { body } = await call('GET', '/metrics', { token })
  t.same(body.match(/(?<=^commit_status_refused_pushes_total\{reason="unavailable"\} ).+$/m), [`${refused}`])
})

t.test('a request holds no place before all of it has arrived', async (t) => {
  const { begin, clone, push } = await startGitServer(t, { maxChildren: 2 })
  for (let count = 0; count < 16; count++) {
    begin('fetch', '127.0.0.1', '', 100)
    begin('push', '127.0.0.1', '', 100)
    begin('fetch', '127.0.0.1', HALF_OPEN, 100)
    begin('push', '127.0.0.1', HALF_OPEN)
  }
  await clone()
  await push()
  await until(() => servicesOf().length === 0)
})

t.test('fetches cannot use the places for pushes', async (t) => {
  const { push, refs } = await startGitServer(t, { maxChildren: 4 })
  const release = blockGit(t, 'git-upload-pack')
  const held = ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5'].map((address) => refs(address))
  await until(() => servicesOf().length === 3)
  await push()
  t.equal(servicesOf().length, 3, 'no place is left for another fetch')
  release()
  for (const { answer } of held) t.equal((await answer).status, 200)
})

t.test('git leaves the processors to others first, on a push also without its server', async (t) => {
  const { hold, refs } = await startGitServer(t, { timeout: 30_000 })
  const groupOf = (process: number | 'self') => readFileSync(`/proc/${process}/autogroup`, 'utf8')
  const own = groupOf('self')
  const checkPriority = async (pid: number, nice: number) => {
    t.equal(getPriority(pid), Math.min(19, getPriority() + nice))
    t.equal(groupOf('self'), own)
    // Empty where Linux does not schedule sessions as groups; it lets other users than root change one
    // in a while only.
    if (own !== '' && process.getuid?.() === 0) await until(() => groupOf(pid).endsWith(` nice ${nice}\n`))
  }
  const held = await hold()
  const [push = 0] = servicesOf()
  await checkPriority(push, 10)
  const limits = readFileSync(`/proc/${push}/limits`, 'utf8')
  t.match(limits, /^Max cpu time +30 +30 +seconds/m)
  t.match(limits, /^Max data size +1610612736 /m)
  const { answer } = refs('127.0.0.3')
  await until(() => servicesOf().length === 2)
  await checkPriority(servicesOf().find((pid) => pid !== push) ?? 0, 5)
  t.equal((await finish(held)).status, 200)
  t.equal((await answer).status, 200)
})

t.test('one place serves fetches and pushes in turn', async (t) => {
  const { url, hold, clone, push } = await startGitServer(t, { maxChildren: 1 })
  const watched = watchServices()
  const held = await hold()
  const others = [clone(), push()]
  const anonymous = await fetch(`${url}/info/refs?service=git-receive-pack`)
  t.equal(anonymous.status, 401, 'access is checked first')
  t.equal((await finish(held)).status, 200)
  await Promise.all(others)
  t.equal(watched().most, 1)
})

t.test('git that waits for its client gives up only a place that somebody needs', async (t) => {
  const places = new GitPlaces(4, 60_000)
  const given: string[] = []
  const release = await places.enter('slow')
  const goOn = places.pause('slow', false, () => given.push('slow') > 0)
  const held = [await places.enter('busy'), await places.enter('busy')]
  const waiting = places.enter('busy')
  await setTimeout(1_000)
  t.same(given, [], 'who waits has half of the places')
  const more = await places.enter('other')
  await setTimeout(1_000)
  t.same(given, [], 'also where all places are taken')
  const third = places.enter('third')
  await until(() => given.length > 0)
  goOn()
  for (const giveBack of [release, ...held, more]) giveBack()
  for (const entered of [waiting, third]) (await entered)()
})

t.test('a long push that waits for its client gives up its place to a long one', async (t) => {
  const places = new GitPlaces(4, 60_000)
  const long = (client: string) => places.enter(client, undefined, true)
  const held = [await long('slow'), await long('other')]
  const waiting = long('third')
  const given = Promise.withResolvers<void>()
  const goOn = places.pause('slow', true, () => {
    given.resolve()
    return true
  })
  await given.promise
  t.equal(places.waiting, 1)
  goOn()
  for (const giveBack of held) giveBack()
  ;(await waiting)()
})

t.test('a client that never reads the rest of its answer protects no others', async (t) => {
  const { path, url, begin, refs } = await startGitServer(t, { maxChildren: 3 }, { spoolBytes: 1024 })
  const checkout = await createCheckout(t, url)
  const id = await commit(checkout, 12_000_000)
  await git(checkout, ['push', '--quiet', path, 'HEAD:refs/heads/large'])
  const fetchUnread = async (address: string): Promise<IncomingMessage> => {
    const { request } = begin('fetch', address, `0032want ${id}\n00000009done\n`)
    request.end()
    const [response] = await once(request, 'response')
    return response.pause()
  }
  const first = await fetchUnread('127.0.0.2')
  const ended = until(() => servicesOf().length === 0)
  while (servicesOf().length > 0) {
    first.resume()
    // git sends nothing more while it ends.
    await Promise.race([once(first, 'data'), ended])
    first.pause()
    await setTimeout(20)
  }
  // The server has the end of the first answer, and no room for that of the others.
  const others = [await fetchUnread('127.0.0.3'), await fetchUnread('127.0.0.4')]
  t.equal(servicesOf().length, 2)
  const since = performance.now()
  t.equal((await refs('127.0.0.5').answer).status, 200)
  t.ok(
    performance.now() - since < 20_000,
    'a git that has ended is not taken for one that gives up its place',
  )
  for (const response of [first, ...others]) response.destroy()
  await until(() => servicesOf().length === 0)
})

t.test('addresses and users take turns, requests of one keep their order', async (t) => {
  const { server, hold, refs } = await startGitServer(t, { maxChildren: 1 })
  const users = new Map<string, string>()
  for (const name of ['a', 'b']) users.set(name, basic('x', await server.createToken(name)))
  const held = await hold()
  const order: string[] = []
  const waiting: Promise<unknown>[] = []
  for (const name of ['3 first', 'a first', '3 second', 'a second', '4 first', 'b first', '3 third']) {
    const client = name.charAt(0)
    const user = users.get(client)
    const { answer } = refs(`127.0.0.${user ? 9 : client}`, user)
    waiting.push(answer.then(() => order.push(name)))
    // The requests must arrive at the server in this order.
    await setTimeout(40)
  }
  // No client falls behind for the seconds that a slow git has held a place.
  const at = performance.now()
  t.capture(performance, 'now', () => at)
  await finish(held)
  await Promise.all(waiting)
  t.same(order, ['3 first', 'a first', '4 first', 'b first', '3 second', 'a second', '3 third'])
})

t.test(
  'the time for a push follows from its size and refs, and is at most that of any request',
  async (t) => {
    const pushTime = { any: 1_000, megabyte: 0, ref: 0, short: Number.POSITIVE_INFINITY }
    const isStopped = /ng refs\/heads\/\S+ Git took longer/
    const release = blockGit(t)
    /** Begins pushes of so many refs to a server with these limits. */
    const pushes = async (limits: Partial<GitLimits>, ...counts: number[]) => {
      const { begin, path } = await startGitServer(t, limits)
      // git starts a process for each ref to an object that it does not have.
      const id = readFileSync(join(path, 'refs/heads/main'), 'utf8').trim()
      return counts.map(async (count) => {
        const commands = Array.from({ length: count }, (_, ref) => `${ZERO} ${id} refs/heads/ref-${ref}`)
        const raw = begin('push', '127.0.0.2', '')
        raw.request.end(pushBody(commands, 'report-status'))
        return (await raw.answer).body.toString()
      })
    }
    const answers = [
      await pushes({ pushTime: { ...pushTime, megabyte: 1_000_000 } }, 1, 2_000),
      await pushes({ pushTime: { ...pushTime, ref: 1_000 } }, 1, 150),
      await pushes({ pushTime: { ...pushTime, any: 9_999_999 }, timeout: 1_000 }, 1),
    ]
    for (const [stopped] of answers) t.match(await stopped, isStopped)
    release()
    for (const [, kept] of answers) if (kept) t.notMatch(await kept, isStopped)
  },
)

t.test('pushes that may take long leave half of the places to short ones', async (t) => {
  const pushTime = { any: 60_000, megabyte: 0, ref: 1, short: 60_001 }
  const { server, url } = await startGitServer(t, { maxChildren: 8, pushTime })
  const users: string[] = []
  for (const name of ['first', 'second', 'third']) {
    users.push(basic('x', await server.createToken(name)))
    await asAdministrator(server.store).collaborators.set(
      { owner: 'owner', name: 'demo' },
      await server.createUser(name),
      'write',
    )
  }
  const release = blockGit(t)
  const push = (user: string, body: string | Buffer) => {
    const raw = beginRpc(url, 'git-receive-pack', user)
    raw.request.end(body, 'latin1')
    return raw.answer
  }
  const long = pushBody(
    [1, 2].map((ref) => `${ZERO} ${ONE} refs/heads/long-${ref}`),
    'report-status',
  )
  const answers = users.slice(0, 2).map((user) => push(user, long))
  await until(() => spooledFiles().length === 2)
  await until(() => servicesOf().length === 1)
  answers.push(push(users[2] ?? '', WHOLE.push))
  await until(() => servicesOf().length === 2)
  await until(() => spooledFiles().length === 3)
  t.equal(servicesOf().length, 2)
  release()
  for (const answer of answers) t.equal((await answer).status, 200)
})

t.test('a client has its time to read before it loses its place to others', async (t) => {
  const places = new GitPlaces(2, 5_000)
  const releases = await Promise.all([places.enter('a'), places.enter('b')])
  const resumes: (() => void)[] = []
  const giveUp = (index: number) => () => {
    resumes[index]?.()
    releases[index]?.()
    return true
  }
  resumes.push(places.pause('a', false, giveUp(0)))
  await setTimeout(150)
  const begun = performance.now()
  resumes.push(places.pause('b', false, giveUp(1)))
  for (const release of await Promise.all([places.enter('c'), places.enter('d')])) release()
  t.ok(performance.now() - begun >= 250)
})

t.test('long pushes hold half of the places, and one client a quarter', async (t) => {
  const places = new GitPlaces(4, 50)
  const enter = (client: string, isLong: boolean) => places.enter(client, undefined, isLong)
  await enter('a', true)
  await t.rejects(enter('a', true))
  await enter('b', true)
  await t.rejects(enter('c', true))
  await enter('c', false)
})

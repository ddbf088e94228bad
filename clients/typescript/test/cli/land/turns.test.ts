import { execFile } from 'node:child_process'
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { capture } from '../../../../../test/helpers/cli.ts'
import { git, gitWith } from '../../../../../test/helpers/git.ts'
import { land as landWith } from '../../../src/cli/land/land.ts'
import { startFailingProxy } from '../../helpers/failing-proxy.ts'
import { startQuickLanding } from '../../helpers/landing.ts'
import { quickTimes } from '../../helpers/quick-lander.ts'

const place = await startQuickLanding(t)
const { server, path, checkout, write, topic, report, ref, until, leftovers, removeLeftovers, main, land } =
  place

t.test(
  'turns: the oldest first, a dead ticket is skipped and removed, a forged one delays for two grace times',
  async (t) => {
    const blob = git(path, 'rev-parse', 'main:a.txt')
    const forge = (name: string, object = blob) =>
      git(path, 'update-ref', `refs/landing/main/${name}`, object)
    const forgeAll = (names: string[]) =>
      gitWith(
        path,
        names.map((name) => `update refs/landing/main/${name} ${blob}\n`).join(''),
        'update-ref',
        '--stdin',
      )
    forge('20200101T000000000Z-000000000000')
    const others = Array.from({ length: 45 }, (_, index) => `20200102T000000000Z-2222222222${index + 10}`)
    forgeAll(others)
    git(path, 'update-ref', 'refs/heads/land/main/000000000000', main())
    git(path, 'update-ref', 'refs/heads/land/main/111111111111', main())
    const start = performance.now()
    const commit = write(main(), { 'h.txt': 'h\n' })
    const dead = land([commit])
    await topic(commit)
    const ticket = (of: string) => {
      const isTicket = (name: string) => name.startsWith('refs/landing/') && name.endsWith(of.slice(0, 12))
      return ref(leftovers().find(isTicket) ?? 'none')
    }
    const untilRefreshed = (of: string) => {
      const value = ticket(of)
      return until(() => !['', value].includes(ticket(of)))
    }
    await untilRefreshed(commit)
    await report(commit, 'success')
    t.match(await dead, { code: 0, stderr: /waiting for older tickets on main: 46/ })
    t.ok(performance.now() - start > quickTimes.grace, 'after the grace time')
    const [living, ...tickets] = leftovers()
    t.equal(living, 'refs/heads/land/main/111111111111', 'the dead ticket is gone, with its topic')
    t.ok([26, 6, 0].includes(tickets.length), 'one push removes twenty, however many are forged')
    t.strictSame(
      tickets,
      others.slice(others.length - tickets.length).map((name) => `refs/landing/main/${name}`),
      'the oldest first',
    )
    removeLeftovers()

    const forgeOldest = () =>
      forge(
        '20200101T000000000Z-000000000000',
        gitWith(path, `${Math.random()}`, 'hash-object', '-w', '--stdin'),
      )
    // Before the landing begins, which may be faster than the interval.
    forgeOldest()
    const forged = setInterval(forgeOldest, 250)
    t.teardown(() => clearInterval(forged))
    const second = write(main(), { 'i.txt': 'i\n' })
    const began = performance.now()
    const delayed = land([second])
    await until(() => ticket(second) !== '')
    await untilRefreshed(second)
    t.equal(ref(`refs/heads/land/main/${second.slice(0, 12)}`), '', 'a ticket is refreshed while it waits')
    await topic(second)
    const waited = performance.now() - began
    t.ok(waited > 2 * quickTimes.grace && waited < 20_000, `${waited} ms`)
    await report(second, 'success')
    t.match(await delayed, { code: 0 })
    clearInterval(forged)
    removeLeftovers()

    const third = write(main(), { 'j.txt': 'j\n' })
    forgeAll(
      others.map((name) =>
        name.replace(/\d{12}$/, third.slice(0, 12)).replace('000Z', `0${name.slice(-2)}Z`),
      ),
    )
    const last = land([third])
    await topic(third)
    await report(third, 'success')
    t.match(await last, { code: 0 }, 'many tickets of its own')
    t.equal(leftovers().length, 25, 'but those it has landed with are all forged')
    removeLeftovers()
  },
)

t.test('a ticket that is silent is passed over, and named with the command that removes it', async (t) => {
  t.teardown(removeLeftovers)
  const digits = 'a'.repeat(12)
  const ticket = `refs/landing/main/20200101T000000000Z-${digits}`
  const spoken = `refs/landing/main/20200101T000000001Z-$(id)-${digits}`
  for (const name of [ticket, spoken]) git(path, 'update-ref', name, git(path, 'rev-parse', 'main:a.txt'))
  git(path, 'update-ref', `refs/heads/land/main/${digits}`, main())
  // One list of tickets at least between one and a half heartbeats and three, also on a busy machine.
  const times = { heartbeat: 3_000, grace: 60_000, interval: 250 }
  const commit = write(main(), { 'silent.txt': 's\n' })
  const landing = capture(() => landWith([commit], place.environment, process, () => times))
  await topic(commit)
  await report(commit, 'success')
  const { code, stderr } = await landing
  const time = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`
  t.equal(code, 0)
  t.match(
    stderr,
    new RegExp(`${ticket} has not been renewed since ${time}; it will be passed over at ${time}\n`),
  )
  t.match(
    stderr,
    new RegExp(
      `passed over ${ticket}, not renewed since ${time}; .* git push origin --delete ${ticket} refs/heads/land/main/${digits}\n`,
    ),
  )
  const [, command = ''] = /remove it: (git push .*\$.*)\n/.exec(stderr) ?? []
  t.equal(leftovers().length, 3, 'it is removed after the grace time, not before')
  const authorization = `Authorization: Basic ${Buffer.from(`x:${place.token}`).toString('base64')}`
  git(checkout, 'config', 'http.extraHeader', authorization)
  t.teardown(() => git(checkout, 'config', '--unset', 'http.extraHeader'))
  await promisify(execFile)('sh', ['-c', command], { cwd: checkout })
  t.strictSame(leftovers(), [ticket], 'the command means what it names, whatever somebody has called it')
})

t.test('a ticket that was passed over is removed after the grace time, while checks run', async (t) => {
  t.teardown(removeLeftovers)
  const digits = 'b'.repeat(12)
  const dead = [`refs/heads/land/main/${digits}`, `refs/landing/main/20200101T000000000Z-${digits}`]
  for (const name of dead) git(path, 'update-ref', name, main())
  const times = { heartbeat: 500, grace: 5_000, interval: 250 }
  const commit = write(main(), { 'swept.txt': 's\n' })
  const landing = capture(() => landWith([commit], place.environment, process, () => times))
  await topic(commit)
  t.ok(
    dead.every((name) => leftovers().includes(name)),
    'not when it has been passed over',
  )
  await until(() => !dead.some((name) => leftovers().includes(name)))
  await report(commit, 'success')
  t.match(await landing, { code: 0, stderr: /passed over/ })
  t.strictSame(leftovers(), [])
})

t.test('a ticket that cannot be renewed for want of room stays, and stale ones are removed', async (t) => {
  t.teardown(removeLeftovers)
  const objects = join(checkout, '../objects')
  mkdirSync(objects)
  const environment = {
    ...place.environment,
    GIT_OBJECT_DIRECTORY: objects,
    GIT_ALTERNATE_OBJECT_DIRECTORIES: join(checkout, '.git/objects'),
  }
  /** From now on git can write no object, also as root. */
  const fill = () => {
    renameSync(objects, `${objects}-before`)
    writeFileSync(objects, '', { mode: 0o755 })
  }
  const dead = `refs/landing/main/20200101T000000000Z-${'e'.repeat(12)}`
  git(path, 'update-ref', dead, main())
  const times = { heartbeat: 500, grace: 5_000, interval: 250 }
  const commit = write(main(), { 'full.txt': 'f\n' })
  const landing = capture(() => landWith([commit], environment, process, () => times))
  await topic(commit)
  fill()
  const ticket = leftovers().find((name) => name.startsWith('refs/landing/') && name !== dead) ?? ''
  await until(() => !leftovers().includes(dead))
  t.not(ref(ticket), '')
  await report(commit, 'success')
  t.match(await landing, { code: 0 })
  t.strictSame(leftovers(), [])

  const later = write(main(), { 'full.txt': 'still\n' })
  const stderr = /^[^\n]*cannot write the ticket in this checkout: unable to [^\n]*\n$/
  t.match(await capture(() => landWith([later], environment, process, () => times)), { code: 5, stderr })
})

/** Returns the environment of a landing through a proxy. */
const through = (url: string) => ({
  ...place.environment,
  COMMIT_STATUS_URL: url,
  GIT_CONFIG_COUNT: '1',
  GIT_CONFIG_KEY_0: `url.${url}/.insteadOf`,
  GIT_CONFIG_VALUE_0: `${server.url}/`,
})

t.test('an outage is no missed renewal', async (t) => {
  t.teardown(removeLeftovers)
  const proxy = await startFailingProxy(t, server.url)
  const ticket = `refs/landing/main/20200101T000000000Z-${'a'.repeat(12)}`
  git(path, 'update-ref', ticket, git(path, 'rev-parse', 'main:a.txt'))
  const times = { heartbeat: 2_500, grace: 60_000, interval: 200 }
  const commit = write(main(), { 'outage.txt': 'o\n' })
  const printed = { stdout: '', stderr: '' }
  const landing = capture(() => landWith([commit], through(proxy.url), process, () => times), printed)
  // Not before the ticket has been seen: only from then on can it be silent.
  await until(() => printed.stderr.includes('waiting for older tickets on main: 1'))
  proxy.always(/git/, { status: 503 })
  await setTimeout(4 * times.heartbeat)
  proxy.always(/git/, 'pass')
  const lists = () =>
    proxy.passages.filter(({ url, status }) => /upload-pack/.test(url) && status === 200).length
  const before = lists()
  await until(() => lists() > before + 1)
  git(path, 'update-ref', '-d', ticket)
  await report(await topic(commit), 'success')
  const { code, stderr } = await landing
  t.equal(code, 0)
  t.notMatch(stderr, `passed over ${ticket}`)
})

t.test('an outage is no missed renewal of a ticket that was passed over', async (t) => {
  t.teardown(removeLeftovers)
  const proxy = await startFailingProxy(t, server.url)
  const ticket = `refs/landing/main/20200101T000000000Z-${'d'.repeat(12)}`
  git(path, 'update-ref', ticket, git(path, 'rev-parse', 'main:a.txt'))
  const heartbeat = 1_500
  // One heartbeat more than the three after which it is passed over.
  const times = { heartbeat, grace: 4 * heartbeat, interval: 200 }
  const commit = write(main(), { 'outage-after-turn.txt': 'o\n' })
  const printed = { stdout: '', stderr: '' }
  const landing = capture(() => landWith([commit], through(proxy.url), process, () => times), printed)
  await until(() => printed.stderr.includes('waiting for older tickets on main: 1'))
  const seen = performance.now()
  await until(() => printed.stderr.includes(`passed over ${ticket}`))
  proxy.always(/git/, { status: 503 })
  await until(() => proxy.passages.some(({ status }) => status === 503))
  const failed = performance.now()
  await setTimeout(heartbeat)
  const outage = performance.now() - failed
  proxy.always(/git/, 'pass')
  await until(() => !leftovers().includes(ticket))
  const silence = performance.now() - seen - outage
  // This process may see the first message late.
  t.ok(silence > times.grace - heartbeat / 4, `removed after ${silence} ms in which it could be renewed`)
  await report(await topic(commit), 'success')
  t.match(await landing, { code: 0 })
})

t.test('a ticket that is renewed at the moment of its removal stays', async (t) => {
  t.teardown(removeLeftovers)
  const proxy = await startFailingProxy(t, server.url)
  const ticket = `refs/landing/main/20200101T000000000Z-${'c'.repeat(12)}`
  const [old = '', renewed = ''] = git(path, 'rev-parse', 'main:a.txt', 'main:b.txt').split('\n')
  git(path, 'update-ref', ticket, old)
  // The second list shows it as stale, and the landing renews and sweeps nothing meanwhile.
  const times = { heartbeat: 60_000, grace: 100, interval: 250 }
  const commit = write(main(), { 'renewed.txt': 'r\n' })
  const renewal = Promise.withResolvers<void>()
  let stderr = ''
  const printed = {
    stdout: '',
    get stderr() {
      return stderr
    },
    // At once, since the removal may follow within a moment.
    set stderr(text) {
      stderr = text
      if (text.includes('waiting for older tickets on main: 1'))
        proxy.always(/receive-pack/, { heldUntil: renewal.promise })
    },
  }
  const landing = capture(() => landWith([commit], through(proxy.url), process, () => times), printed)
  await until(() => stderr.includes('waiting for older tickets on main: 1'))
  const pushes = () => proxy.passages.filter(({ url }) => /receive-pack/.test(url)).length
  // Two requests have published the ticket.
  await until(() => pushes() > 2)
  git(path, 'update-ref', ticket, renewed, old)
  renewal.resolve()
  await report(await topic(commit), 'success')
  t.equal(ref(ticket), renewed)
  t.match(await landing, { code: 0 })
})

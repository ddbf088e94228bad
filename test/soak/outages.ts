import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import tap from 'tap'
import { commandLine } from '../../clients/typescript/test/helpers/command-line.ts'
import { startLanding } from '../../clients/typescript/test/helpers/landing.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { freePort } from '../helpers/free-port.ts'
import { git } from '../helpers/git.ts'
import { type Instance, startInstance } from '../helpers/instance.ts'

/**
 * `wait`, `wait --branch` and `land` go on while the name of the server is not resolved, while it
 * moves to another address, restarts, and is away for ten minutes.
 */
const UNRESOLVED = 60_000
const MOVED = 20_000
const AWAY = 600_000

tap.setTimeout(1_500_000)

/** Resolves `status.test` to the address in a file, or not at all while the file is empty. */
const preload = `import dns from 'node:dns'
  import { readFileSync } from 'node:fs'
  const { lookup } = dns
  dns.lookup = (name, options, callback) => {
    if (name !== 'status.test') return lookup(name, options, callback)
    const address = readFileSync(process.env.ADDRESS_FILE, 'utf8')
    const error = Object.assign(new Error('getaddrinfo ENOTFOUND status.test'), { code: 'ENOTFOUND' })
    if (address === '') return setImmediate(callback, error)
    setImmediate(callback, null, options.all ? [{ address, family: 4 }] : address, 4)
  }`

tap.test('waits outlast outages', async (t) => {
  const place = await startLanding(t)
  const commit = place.write(place.ref('refs/heads/main'), { 'c.txt': 'c\n' })
  const base = place.ref('refs/heads/main')
  const port = await freePort()
  const start = (HOST: string) => startInstance(t, place.server.options, { HOST, PORT: String(port) })
  const stop = async ({ child }: Instance) => {
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }
  const file = join(temporaryFolder(t), 'address')
  const resolveTo = (address: string) => writeFileSync(file, address)

  let instance = await start('127.0.0.1')
  resolveTo('127.0.0.1')
  const named = {
    COMMIT_STATUS_URL: `http://status.test:${port}`,
    COMMIT_STATUS_TOKEN: place.token,
    ADDRESS_FILE: file,
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}`,
  }
  const wait = (...args: string[]) =>
    commandLine(t, ['wait', base, '--repo', 'acme/rocket', '--timeout', '30m', ...args], { env: named })
  const url = `http://127.0.0.1:${port}`
  git(place.checkout, 'remote', 'set-url', 'origin', `${url}/acme/rocket.git`)
  const running = {
    wait: wait('--require', 'ci/test', '--only'),
    branch: wait('--branch', 'main'),
    land: place.land([commit, '--timeout', '30m'], { env: { COMMIT_STATUS_URL: url } }),
  }
  const ended: string[] = []
  for (const [name, { finished }] of Object.entries(running)) void finished.then(() => ended.push(name))
  const topic = await place.topic(commit)
  await setTimeout(5_000)

  // The name is looked up again once the connection is lost.
  resolveTo('')
  await stop(instance)
  await setTimeout(UNRESOLVED)
  instance = await start('127.0.0.2')
  resolveTo('127.0.0.2')
  await setTimeout(MOVED)
  await stop(instance)
  instance = await start('127.0.0.1')
  resolveTo('127.0.0.1')
  await setTimeout(MOVED)
  await stop(instance)
  await setTimeout(AWAY)
  t.same(ended, [], 'all of them still wait')
  await start('127.0.0.1')
  for (const sha of [base, topic]) await place.report(sha, 'success')
  for (const [name, { finished }] of Object.entries(running)) {
    const { code, stdout, stderr } = await finished
    t.equal(code, 0, name)
    t.match(stdout, name === 'land' ? /^landed / : /^success: /)
    const said = stderr.split('\n').filter((line) => /still trying|answers again/.test(line))
    t.comment(`${name}:\n${stderr}`)
    t.ok(said.length > 0 && said.length % 2 === 0, 'each outage was said when it began and when it was over')
    if (name !== 'land') t.match(said[0], /ENOTFOUND/, 'the first one is that of the name')
    for (const [index, line] of said.entries())
      t.match(line, index % 2 === 0 ? /still trying/ : /answers again/)
  }
})

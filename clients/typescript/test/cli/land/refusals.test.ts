import { cpSync, existsSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { join, resolve } from 'node:path'
import t from 'tap'
import { asAdministrator } from '../../../../../test/helpers/changes.ts'
import { listenLocally } from '../../../../../test/helpers/free-port.ts'
import { git } from '../../../../../test/helpers/git.ts'
import { createGit } from '../../../src/cli/git.ts'
import { createRemote } from '../../../src/cli/land/remote.ts'
import { call } from '../../helpers/command-line.ts'
import { startFailingProxy } from '../../helpers/failing-proxy.ts'
import { privateCa, selfSigned, startHttps } from '../../helpers/https.ts'
import { startQuickLanding } from '../../helpers/landing.ts'

const place = await startQuickLanding(t)
const { server, repository, path, checkout, write, leftovers, main, land } = place

t.test('what cannot be landed is refused with the reason, before anything is pushed', async (t) => {
  const commit = write(main(), { 'g.txt': 'g\n' })
  git(checkout, 'push', '--quiet', path, `${main()}:refs/heads/free`)
  /** Returns the git directory of another checkout, whose `origin` is on a server. */
  const cloneOf = (origin: string, { isShallow = false } = {}) => {
    const folder = mkdtempSync(`${checkout}-`)
    if (isShallow) git(checkout, 'clone', '--quiet', '--depth=1', `file://${checkout}`, folder)
    else cpSync(join(checkout, '.git'), join(folder, '.git'), { recursive: true })
    git(folder, 'remote', 'set-url', 'origin', `${origin}/acme/rocket.git`)
    return { GIT_DIR: join(folder, '.git') }
  }
  /** Returns the git directory of one that sends what is for the server elsewhere. */
  const rewriting = (key: string) => {
    const clone = cloneOf(server.url)
    git(clone.GIT_DIR, 'config', `url.https://git.example.org/.${key}`, `${server.url}/`)
    return clone
  }
  git(checkout, 'reset', '--quiet', '--hard', commit)
  const gone = await startFailingProxy(t, server.url)
  await gone.close()
  const away = gone.url
  const redirecting = createServer(({ url }, response) =>
    response.writeHead(302, { location: server.url + url }).end(),
  )
  const moved = `http://127.0.0.1:${await listenLocally(redirecting)}`
  t.teardown(() => redirecting.close())
  git(checkout, 'config', 'credential.helper', '!touch asked; true')
  const oldGit = join(checkout, '../old')
  mkdirSync(oldGit)
  writeFileSync(
    join(oldGit, 'git'),
    `#!/bin/sh\n[ "$1" = version ] && echo git version 2.37.9 || PATH='${process.env.PATH}' exec git "$@"\n`,
    { mode: 0o755 },
  )
  const readOnly = await server.createToken('acme', { limits: { push: false } })
  const cases: [args: string[], code: number, stderr: RegExp, env?: Record<string, string>][] = [
    [[commit, '--onto', 'free'], 7, /no rule matches the branch free/],
    [[commit, '--branch', 'free'], 7, /no rule matches the branch free/],
    [[commit, '--branch', 'free', '--onto', 'free'], 2, /are the same; give one of them/],
    [
      ['main'],
      2,
      /main is what to land onto: to land HEAD, give --onto main \(see commit-status land --help\)/,
    ],
    [[commit, '--onto', 'mian'], 2, /the server has no branch mian/],
    [[commit, '--onto', 'a..b'], 2, /"a..b" is not a name of a branch/],
    [[commit], 2, /git fetch --unshallow/, cloneOf(server.url, { isShallow: true })],
    [
      [commit],
      2,
      /the remote origin is .*, but land pushes to http.*; .* git remote set-url origin http/,
      cloneOf('https://git.example.org'),
    ],
    [
      [commit],
      2,
      /git pushes to https:\/\/git\.example\.org\/acme\/rocket instead of/,
      rewriting('pushInsteadOf'),
    ],
    [[commit], 2, /the remote origin is https:\/\/git\.example\.org/, rewriting('insteadOf')],
    [['f'.repeat(40)], 2, /is not a commit in this checkout/],
    [[git(checkout, 'rev-parse', 'HEAD^{tree}')], 2, /is not a commit in this checkout/],
    [[commit], 2, /git is 2\.37; land needs 2\.38 or later/, { PATH: oldGit }],
    [[commit], 2, /missing token/, { COMMIT_STATUS_TOKEN: '' }],
    [[commit], 5, /does not accept the token in COMMIT_STATUS_TOKEN/, { COMMIT_STATUS_TOKEN: 'wrong' }],
    [[commit], 5, /the token in COMMIT_STATUS_TOKEN may not push/, { COMMIT_STATUS_TOKEN: readOnly }],
    // The checks of the checkout come first, and may take seconds on a busy machine.
    [
      [commit, '--timeout', '15s'],
      5,
      /still trying: .*onnect.*\n.*git failed .*onnect/,
      { ...cloneOf(away), COMMIT_STATUS_URL: away, COMMIT_STATUS_TIMEOUT: '0.01s' },
    ],
    [[commit], 5, /git failed .* 302/, { ...cloneOf(moved), COMMIT_STATUS_URL: moved }],
  ]
  for (const [args, code, stderr, env] of cases) {
    const end = await call(['land', ...args], { ...place.environment, ...env })
    t.match(end, { code, stderr, stdout: '' }, String(stderr))
  }
  t.notOk(existsSync(join(checkout, 'asked')), 'no credential helper is asked')

  for (const name of ['land', 'a/refs/heads/land']) git(path, 'update-ref', `refs/heads/${name}`, main())
  t.match(await land([commit]), { code: 5, stderr: /the branch land is in the way of land\/main\// })
  git(path, 'update-ref', '-d', 'refs/heads/land')
  await asAdministrator(server.store).rules.set(repository, {
    refPattern: '*',
    required: ['ci/test'],
    bypass: [],
  })
  t.match(await land([commit]), { code: 5, stderr: /a rule matches land\/main\/.* too/ })
  await asAdministrator(server.store).rules.remove(repository, '*')
  t.strictSame(leftovers(), [])
})

/** Pushes through a remote, and returns what comes of it with the number of attempts. */
async function pushWith(
  environment: Record<string, string>,
  url: string,
  token: string,
  options: string[],
  update: string,
) {
  const own = createGit({ ...place.environment, ...environment }, { url, token, timeout: () => 60_000 })
  let attempts = 0
  const counting: typeof own = (...command) => {
    attempts++
    return own(...command)
  }
  const times = { retryFor: () => 60_000, outageAfter: 60_000, onOutage: () => {} }
  const end = await createRemote(counting, url, times)
    .push(options, [update])
    .catch(({ message }: Error) => message)
  return { end, attempts }
}

t.test('a refusal is not tried again, whatever hosts, repositories and checks are called', async (t) => {
  const connector = await server.createRepository('acme/connector', { commits: 0 })
  git(checkout, 'push', '--quiet', connector.path, `${main()}:refs/heads/main`)
  const rule = { refPattern: 'main', required: ['ci/connectivity EOF'], bypass: [] }
  await asAdministrator(server.store).rules.set(connector, rule)
  const { port } = new URL(server.url)
  const named = `http://connect.example.org:${port}`
  const environment = {
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: 'http.curloptResolve',
    GIT_CONFIG_VALUE_0: `connect.example.org:${port}:127.0.0.1`,
  }
  const push = (base: string, token: string, options: string[], update: string) =>
    pushWith(environment, `${base}/acme/connector.git`, token, options, update)
  const commit = write(main(), { 'connect.txt': 'c\n' })
  const update = `${commit}:refs/heads/main`
  const lease = `--force-with-lease=refs/heads/main:${commit}`
  const readOnly = await server.createToken('acme', { limits: { push: false } })
  t.same(await push(named, place.token, [lease], update), { end: 'stale info', attempts: 1 })
  t.match(await push(named, place.token, [], update), { end: /ci\/connectivity EOF/, attempts: 1 })
  t.match(await push(named, 'wrong', [], update), { end: /does not accept the token/, attempts: 1 })
  t.match(await push(named, readOnly, [], update), { end: /may not push/, attempts: 1 })

  const proxy = await startFailingProxy(t, server.url)
  const topic = `${commit}:refs/heads/topic`
  proxy.plan('pass', { status: 413 })
  t.match(
    await push(proxy.url, place.token, [], topic),
    { end: /^git failed .* 413$/, attempts: 1 },
    'by the status alone',
  )
  proxy.plan('pass', { status: 401, body: '' })
  t.match(await push(proxy.url, place.token, [], topic), { end: /does not accept/, attempts: 1 })
  proxy.plan('reset', 'pass', 'reset', { status: 503 })
  t.same(
    await push(proxy.url, place.token, [], topic),
    { end: undefined, attempts: 4 },
    'what may be over soon',
  )
})

t.test('a proxy that is away, and an end of TLS, are outages; a certificate is not', async (t) => {
  const url = await startHttps(t, server.url, resolve(privateCa, '../server.pem'))
  const answers: ('pass' | 'end' | number)[] = []
  const proxy = createServer()
  proxy.on('connect', ({ url: address = '' }, client) => {
    const answer = answers.shift() ?? 'pass'
    client.on('error', () => {})
    if (typeof answer === 'number') return client.end(`HTTP/1.1 ${answer} \r\n\r\n`)
    client.write('HTTP/1.1 200 \r\n\r\n')
    if (answer === 'end') return client.once('data', () => client.end())
    const upstream = connect(Number(address.split(':')[1]), '127.0.0.1')
    upstream.on('error', () => {})
    return client.pipe(upstream).pipe(client)
  })
  const https_proxy = `http://127.0.0.1:${await listenLocally(proxy)}`
  t.teardown(() => proxy.close())
  const commit = write(main(), { 'proxy.txt': 'p\n' })
  const push = (GIT_SSL_CAINFO: string, plan: typeof answers = [], configuration = {}) => {
    answers.splice(0, answers.length, ...plan)
    const environment = { https_proxy, GIT_SSL_CAINFO, ...configuration }
    return pushWith(environment, `${url}/acme/rocket.git`, place.token, [], `${commit}:refs/heads/topic`)
  }
  t.match(await push(selfSigned), { end: /certificate/, attempts: 1 })
  const pinned = {
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: 'http.pinnedPubkey',
    GIT_CONFIG_VALUE_0: `sha256//${Buffer.alloc(32).toString('base64')}`,
  }
  t.match(await push(privateCa, [], pinned), { end: /pinned public key/, attempts: 1 })
  t.match(await push(privateCa, [407]), { end: /407/, attempts: 1 })
  t.match(await push(privateCa, ['end', 503, 'end']), { end: undefined, attempts: 4 })
})

import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { createToken, hashToken, tokenPrefix } from '../../src/auth/token.ts'
import { createBareRepository } from '../../src/git/repository.ts'
import { openStore } from '../../src/store/store.ts'
import { list, object, text } from '../contract/json.ts'
import { freePort } from '../helpers/free-port.ts'
import { createCommits, git } from '../helpers/git.ts'
import { startPostgres } from '../helpers/postgres-server.ts'

/**
 * Three instances on one PostgreSQL and one folder of repositories, behind a real nginx with the configuration that is
 * shipped. Wants `nginx` in PATH, or its path in NGINX_BINARY.
 */
const INSTANCES = 3
const REPORTERS = 8
const OUTAGES = 10
const LIMIT = 30
/** Bad credentials at once; nginx lets through 100 requests of one address. */
const ATTEMPTS = 90
const root = resolve(import.meta.dirname, '../..')
const folder = mkdtempSync(join(tmpdir(), 'soak-nginx-'))
const dataDir = join(folder, 'data')
const print = (line: string) => process.stdout.write(`${line}\n`)

async function startInstance(port: number, databaseUrl: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, [join(root, 'src/server.ts')], {
    env: {
      PATH: process.env.PATH,
      DATA_DIR: dataDir,
      DATABASE_URL: databaseUrl,
      PORT: String(port),
      TRUSTED_PROXIES: '127.0.0.1',
      AUTH_FAILURE_LIMIT: String(LIMIT),
      LOG_LEVEL: 'silent',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  for await (const line of createInterface({ input: child.stdout }))
    if (line.startsWith('Listening')) return child
  throw new Error('an instance did not start')
}

/** The operator's guide's configuration, but for the ports, and without TLS. */
async function startNginx(port: number, plain: number, instances: readonly number[]): Promise<ChildProcess> {
  const [, shipped = ''] =
    /```nginx\n([\s\S]*?)```/.exec(readFileSync(join(root, 'src/ops/README.md'), 'utf8')) ?? []
  const site = shipped
    .replace('    server 127.0.0.1:3000 fail_timeout=2s;\n', () =>
      instances.map((instance) => `    server 127.0.0.1:${instance} fail_timeout=2s;\n`).join(''),
    )
    .replace('listen 443 ssl;', `listen 127.0.0.1:${port};`)
    .replace('listen 80;', `listen 127.0.0.1:${plain};`)
    .replace(/^ *ssl_.*\n/gm, '')
  assert(site.includes('proxy_pass') && !site.includes('3000') && !site.includes('443'))
  for (const name of ['body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']) mkdirSync(join(folder, name))
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off; pid ${folder}/nginx.pid; error_log ${folder}/error.log; worker_processes 1;
    ${process.getuid?.() === 0 ? 'user root;' : ''}
    events { worker_connections 1024; }
    http {
      access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
      fastcgi_temp_path ${folder}/fastcgi; uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
      ${site}
    }`,
  )
  const nginx = spawn(process.env.NGINX_BINARY ?? 'nginx', ['-p', folder, '-c', join(folder, 'nginx.conf')], {
    stdio: 'inherit',
  })
  const url = `http://127.0.0.1:${port}/healthz`
  while (
    !(await fetch(url).then(
      ({ ok }) => ok,
      () => false,
    ))
  ) {
    assert.equal(nginx.exitCode, null, 'nginx ended')
    await setTimeout(50)
  }
  return nginx
}

const postgres = await startPostgres()
const store = await openStore({ dataDir, databaseUrl: postgres.url })
const ports = await Promise.all(Array.from({ length: INSTANCES }, freePort))
const instances = await Promise.all(ports.map((port) => startInstance(port, postgres.url)))
const port = await freePort()
const plain = await freePort()
const nginx = await startNginx(port, plain, ports)
const url = `http://127.0.0.1:${port}`
const redirect = await fetch(`http://127.0.0.1:${plain}/login?next=%2Fx`, { redirect: 'manual' })
assert.deepEqual(
  [redirect.status, redirect.headers.get('location')],
  [301, 'https://127.0.0.1/login?next=%2Fx'],
)
for (const path of ['/healthz', '/nowhere'])
  assert.match((await fetch(url + path)).headers.get('strict-transport-security') ?? '', /^max-age=\d{7,}$/)

async function newToken(): Promise<{ id: string; secret: string }> {
  const secret = createToken()
  const user = (await store.users.find('alice')) ?? (await store.users.create('alice'))
  const { id } = await store.tokens.create({
    userId: user.id,
    name: 'soak',
    prefix: tokenPrefix(secret),
    hash: hashToken(secret),
    scopes: ['repo'],
    expiresAt: null,
  })
  return { id, secret }
}

const { secret } = await newToken()
const { path } = await store.repositories.create(
  { owner: 'alice', name: 'rocket', visibility: 'private', objectFormat: 'sha1' },
  (place) => createBareRepository(place, 'sha1'),
)
const [sha = ''] = createCommits(path, 1)
const statusesAt = (origin: string) => `${origin}/api/v1/repos/alice/rocket/commits/${sha}/statuses`
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

async function report(context: string, description: string): Promise<Response> {
  return fetch(`${url}/api/v1/repos/alice/rocket/statuses/${sha}`, {
    method: 'POST',
    headers: { ...bearer(secret), 'content-type': 'application/json' },
    body: JSON.stringify({ state: 'success', context, description }),
  })
}

async function budgetIsExact(): Promise<void> {
  const answers = await Promise.all(
    Array.from({ length: ATTEMPTS }, async () => {
      const answer = await fetch(statusesAt(url), { headers: bearer(createToken()) })
      await answer.arrayBuffer()
      return answer.status
    }),
  )
  const count = (status: number) => answers.filter((answer) => answer === status).length
  print(`${ATTEMPTS} bad credentials at once: ${count(401)} answered 401, ${count(429)} answered 429`)
  assert.deepEqual([count(401), count(429)], [LIMIT, ATTEMPTS - LIMIT])
  assert(await store.failures.lift('127.0.0.1'))
}

async function revocationHolds(): Promise<void> {
  const token = await newToken()
  const ask = (instance = 0) =>
    fetch(statusesAt(`http://127.0.0.1:${instance}`), { headers: bearer(token.secret) }).then(
      ({ status }) => status,
    )
  for (const instance of ports) assert.equal(await ask(instance), 200)
  await store.tokens.revoke(token.id)
  for (const instance of ports) assert.equal(await ask(instance), 401)
  await store.failures.lift('127.0.0.1')
  print('a token revoked: refused by every instance at the next request')
}

function gitPassesThrough(): void {
  const checkout = join(folder, 'checkout')
  const remote = `http://x:${secret}@127.0.0.1:${port}/alice/rocket.git`
  git(folder, 'clone', '--quiet', remote, checkout)
  writeFileSync(join(checkout, 'large'), Buffer.alloc(20e6, Math.random().toString()))
  git(checkout, 'add', 'large')
  git(checkout, 'commit', '--quiet', '--message', 'large')
  git(checkout, 'push', '--quiet', 'origin', 'HEAD:refs/heads/large')
  assert.equal(git(path, 'rev-parse', 'large'), git(checkout, 'rev-parse', 'HEAD'))
  print('cloned and pushed through nginx')
}

async function nothingIsLost(): Promise<void> {
  const acknowledged = new Map<string, number>()
  const statuses = new Map<number, number>()
  let done = false
  const reporters = Array.from({ length: REPORTERS }, async (_, index) => {
    for (let number = 1; !done; number++) {
      const answer = await report(`reporter ${index}`, String(number))
      const body = object(await answer.json(), 'the answer')
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
      if (answer.status === 201) {
        assert.equal(body.description, String(number))
        acknowledged.set(`reporter ${index}`, number)
      } else {
        assert.equal(typeof body.error, 'string')
        await setTimeout(20)
      }
    }
  })
  for (let outage = 0; outage < OUTAGES; outage++) {
    await setTimeout(1_500)
    const index = outage % INSTANCES
    if (outage % 2 === 0) {
      instances[index]?.kill('SIGKILL')
      instances[index] = await startInstance(ports[index] ?? 0, postgres.url)
    } else {
      await postgres.crash()
    }
  }
  await setTimeout(3_000)
  done = true
  await Promise.all(reporters)
  const answer = await fetch(statusesAt(url), { headers: bearer(secret) })
  const stored = new Map<string, number>(
    list(object(await answer.json(), 'the statuses').statuses).map((entry) => {
      const { context, description } = object(entry, 'a status')
      return [text(context, 'context'), Number(description)]
    }),
  )
  for (const [context, number] of acknowledged)
    assert((stored.get(context) ?? 0) >= number, `${context} lost a report`)
  print(`${OUTAGES} times an instance killed or PostgreSQL crashed: answers ${JSON.stringify([...statuses])}`)
  assert.deepEqual([...statuses.keys()].sort(), [201, 503])
}

try {
  await budgetIsExact()
  await revocationHolds()
  gitPassesThrough()
  await nothingIsLost()
  const tooLarge = await report('large', 'x'.repeat(200_000))
  assert.equal(tooLarge.status, 413)
  text(object(await tooLarge.json(), 'the answer').error, 'error')
  print("nginx's own 413 as JSON")
  await Promise.all(
    instances.map(async (instance) => {
      const exited = once(instance, 'exit')
      instance.kill('SIGTERM')
      assert.deepEqual(await exited, [0, null], 'every instance ends with 0')
    }),
  )
  const answer = await fetch(statusesAt(url))
  assert.equal(answer.status, 503)
  assert.equal(answer.headers.get('retry-after'), '2')
  text(object(await answer.json(), 'the answer').error, 'error')
  print('no instance left: 503 as JSON with Retry-After')
} finally {
  for (const instance of instances) instance.kill('SIGKILL')
  // Killed, it would leave its worker behind.
  nginx.kill('SIGTERM')
  if (nginx.exitCode === null) await once(nginx, 'exit')
  await store.close()
  await postgres.stop()
  rmSync(folder, { recursive: true, force: true })
}

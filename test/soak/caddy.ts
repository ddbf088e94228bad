import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { openStore } from '../../src/store/store.ts'
import { object } from '../contract/json.ts'
import { freePort } from '../helpers/free-port.ts'
import { until } from '../helpers/until.ts'
import { createOwnedRepository, startServerProcess } from './git-server.ts'
import { requireProgram } from './require-program.ts'

/** A server behind a real Caddy with the configuration of the operator's guide, but for the ports and TLS: `npm run soak -- caddy`. */
const root = resolve(import.meta.dirname, '../..')
const print = (line: string) => process.stdout.write(`${line}\n`)
requireProgram('caddy')
const folder = mkdtempSync(join(tmpdir(), 'soak-caddy-'))
const dataDir = join(folder, 'data')
const store = await openStore({ dataDir })
const { authorization } = await createOwnedRepository(store, 'acme', 'rocket')
const server = await startServerProcess({ DATA_DIR: dataDir, TRUSTED_PROXIES: '127.0.0.1' })
const [, shipped = ''] =
  /```caddyfile\n([\s\S]*?)```/.exec(readFileSync(join(root, 'src/ops/README.md'), 'utf8')) ?? []
const file = join(folder, 'Caddyfile')
writeFileSync(file, shipped)
execFileSync('caddy', ['validate', '--config', file], { stdio: ['ignore', 'ignore', 'pipe'] })
const url = `http://127.0.0.1:${await freePort()}`
const site = shipped.replace('status.example.org', url).replace('127.0.0.1:3000', new URL(server.url).host)
writeFileSync(file, `{\n\tadmin off\n}\n${site}`)
const caddy = spawn('caddy', ['run', '--config', file], {
  env: { ...process.env, HOME: folder },
  stdio: 'ignore',
})
try {
  await until(() =>
    fetch(`${url}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    ),
  )
  const answer = await fetch(`${url}/login`)
  assert.equal(answer.status, 200)
  assert.match(answer.headers.get('strict-transport-security') ?? '', /^max-age=\d{7,}$/)
  const checkout = join(folder, 'checkout')
  const header = `http.extraHeader=authorization: ${authorization}`
  execFileSync('git', ['-c', header, 'clone', '--quiet', `${url}/acme/rocket.git`, checkout])
  const author = ['-c', 'user.name=A', '-c', 'user.email=a@example.org']
  execFileSync('git', ['-C', checkout, ...author, 'commit', '--quiet', '--allow-empty', '--message=first'])
  execFileSync('git', ['-C', checkout, '-c', header, 'push', '--quiet', 'origin', 'HEAD:refs/heads/topic'])
  print('cloned and pushed through Caddy')
  server.child.kill('SIGKILL')
  const refused = await fetch(`${url}/healthz`)
  assert.deepEqual(
    [
      refused.status,
      refused.headers.get('retry-after'),
      Object.keys(object(await refused.json(), 'the answer')),
    ],
    [503, '2', ['error']],
  )
  print('no instance left: 503 as JSON with Retry-After')
} finally {
  caddy.kill()
  server.child.kill('SIGKILL')
  await store.close()
  rmSync(folder, { recursive: true, force: true })
}

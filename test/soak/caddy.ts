import { execFileSync, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import tap from 'tap'
import { object } from '../contract/json.ts'
import { codeBlock, readDocument } from '../docs/machine.ts'
import { basic, commit, git } from '../git-http/client.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { freePort } from '../helpers/free-port.ts'
import { startInstance } from '../helpers/instance.ts'
import { startServer } from '../helpers/server.ts'
import { untilServed } from '../helpers/until.ts'
import { requireProgram } from './parts/programs.ts'

tap.setTimeout(120_000)
requireProgram('caddy')

tap.test('a real Caddy with the configuration of the guide, but for the ports and TLS', async (t) => {
  const folder = temporaryFolder(t)
  const { options, createRepository, createToken } = await startServer(t)
  await createRepository('acme/rocket', { private: true })
  const authorization = basic('x', await createToken('acme'))
  const server = await startInstance(t, options, { TRUSTED_PROXIES: '127.0.0.1' })
  const shipped = codeBlock(readDocument('src/ops/README.md'), 'reverse_proxy')
  const file = join(folder, 'Caddyfile')
  writeFileSync(file, shipped)
  execFileSync('caddy', ['validate', '--config', file], { stdio: ['ignore', 'ignore', 'pipe'] })
  const url = `http://127.0.0.1:${await freePort()}`
  const site = shipped.replace('status.example.org', url).replace('127.0.0.1:3000', new URL(server.url).host)
  writeFileSync(file, `{\n\tadmin off\n}\n${site}`)
  const env = { ...process.env, HOME: folder }
  const caddy = spawn('caddy', ['run', '--config', file], { env, stdio: 'ignore' })
  t.teardown(() => caddy.kill())
  await untilServed(`${url}/healthz`)
  const answer = await fetch(`${url}/login`)
  t.equal(answer.status, 200)
  t.match(answer.headers.get('strict-transport-security'), /^max-age=\d{7,}$/)

  const checkout = join(folder, 'checkout')
  await git(folder, ['clone', '--quiet', `${url}/acme/rocket.git`, checkout], { authorization })
  await commit(checkout)
  await git(checkout, ['push', '--quiet', 'origin', 'HEAD:refs/heads/topic'], { authorization })

  server.child.kill('SIGKILL')
  const refused = await fetch(`${url}/healthz`)
  t.equal(refused.status, 503, 'no instance is left')
  t.equal(refused.headers.get('retry-after'), '2')
  t.same(Object.keys(object(await refused.json(), 'the answer')), ['error'])
})

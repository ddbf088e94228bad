import { join } from 'node:path'
import tap from 'tap'
import { object } from '../contract/json.ts'
import { basic, commit, git } from '../git-http/client.ts'
import { temporaryFolder } from '../helpers/databases.ts'
import { freePort } from '../helpers/free-port.ts'
import { startInstance } from '../helpers/instance.ts'
import { startServer } from '../helpers/server.ts'
import { startCaddy } from './parts/caddy.ts'

tap.setTimeout(600_000)

tap.test('a real Caddy with the configuration of the guide, but for the ports and TLS', async (t) => {
  const folder = temporaryFolder(t)
  const { options, createRepository, createToken } = await startServer(t)
  await createRepository('acme/rocket', { private: true })
  const authorization = basic('x', await createToken('acme'))
  const server = await startInstance(t, options, { TRUSTED_PROXIES: '127.0.0.1' })
  const port = await freePort()
  await startCaddy(t, port, server.url)
  const url = `http://127.0.0.1:${port}`
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

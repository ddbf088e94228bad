import t from 'tap'
import { createAccount, openPageClient } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'

t.test('go finds the module of any package below a repository', async (t) => {
  const server = await startServer(t)
  await createAccount(server, 'alice')
  await server.createRepository('alice/rocket')
  await server.createRepository('alice/hidden', { private: true })
  const client = openPageClient(server.url)
  await client.signIn('alice')
  const host = new URL(server.url).host
  const meta = (name: string) =>
    `<meta name="go-import" content="${host}/alice/${name} git ${server.url}/alice/${name}.git">`
  const ask = async (path: string, headers: Record<string, string> = {}) => {
    const answer = await fetch(`${server.url}${path}`, { redirect: 'manual', headers })
    return { status: answer.status, body: await answer.text(), location: answer.headers.get('location') }
  }

  const below = ['', '/', '/engine', '/engine/v2', '/checks', '/commits/main', '/settings', '/badge.svg']
  for (const path of below) {
    const { status, body } = await ask(`/alice/rocket${path}?go-get=1`)
    t.equal(status, 200, path)
    t.ok(body.includes(meta('rocket')), path)
    t.ok((await client.get(`/alice/hidden${path}?go-get=1`)).body.includes(meta('hidden')), path)
  }
  t.ok((await ask('/Alice/ROCKET?go-get=1')).body.includes(meta('rocket')), 'as the name is written')

  const [hidden, missing] = [await ask('/alice/hidden/x?go-get=1'), await ask('/alice/missing/x?go-get=1')]
  t.equal(hidden.status, 303)
  t.same(hidden, { ...missing, location: missing.location?.replace('missing', 'hidden') })
  t.notMatch(hidden.body, 'go-import')

  t.notMatch((await ask('/alice/rocket')).body, 'go-import')
  t.equal((await ask('/alice/rocket/engine')).status, 404)
  t.equal((await ask('/alice/rocket/engine?go-get=2')).status, 404)
  t.equal((await ask('/alice?go-get=1')).status, 200, 'an owner is no module')
  const api = `/api/v1/repos/alice/rocket/commits/${'0'.repeat(40)}/verdict`
  t.equal((await ask(`${api}?go-get=1`)).status, 422, 'the API refuses the parameter')
  const posted = await fetch(`${server.url}/alice/rocket/settings?go-get=1`, { method: 'POST' })
  t.equal(posted.status, 415, 'a form is no question of go')
})

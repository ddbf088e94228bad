import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { tryGit } from '../git-http/client.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, temporaryFolder } from '../helpers/databases.ts'
import { createAccount, openPageClient } from '../helpers/page-client.ts'
import { startServer } from '../helpers/server.ts'

const SHA = 'a'.repeat(40)

t.test('the new name of a repository is told to who may read it, and to nobody else', async (t) => {
  const server = await startServer(t)
  const { store, url } = server
  const write = asAdministrator(store)
  await server.createRepository('acme/open')
  await server.createRepository('acme/secret', { private: true })
  const other = await server.createRepository('acme/other', { private: true })
  for (const name of ['open', 'secret'])
    await write.repositories.rename({ owner: 'acme', name }, { owner: 'acme', name: `new-${name}` })
  await server.createRepository('beta/open')
  await write.repositories.rename({ owner: 'beta', name: 'open' }, { owner: 'beta', name: 'closed' })
  const owner = await server.createToken('acme')
  const limited = await server.createToken('acme', { limits: { repositories: [other.id] } })
  const stranger = await server.createToken('stranger')

  const folder = temporaryFolder(t)
  const told = (name: string) => `The repository is called acme/new-${name} now. Use that name.`
  const cases = [
    { token: owner, open: 404, secret: 404 },
    { token: limited, open: 404, secret: null },
    { token: stranger, open: 404, secret: null },
    { token: undefined, open: 401, secret: null },
  ]
  for (const { token, ...expected } of cases)
    for (const name of ['open', 'secret'] as const) {
      const asked = [`ACME/${name}`, `acme/missing`].map(async (fullName) => {
        const { status, body } = await server.read(fullName, SHA, token)
        const report = await server.report(fullName, SHA, { state: 'success' }, token)
        const authorization = token && `Bearer ${token}`
        const git = await tryGit(folder, ['ls-remote', `${url}/${fullName}.git`], {
          ...(authorization && { authorization }),
        })
        return { status, body, report: report.body, git: git.stderr.replaceAll(fullName, '') }
      })
      const [renamed, missing] = await Promise.all(asked)
      const status = expected[name]
      if (status === null) t.same(renamed, missing, 'like a missing one')
      else {
        t.match(renamed, { status, body: JSON.stringify({ error: told(name) }) })
        t.equal(renamed?.report, renamed?.body)
        if (status === 404) t.match(renamed?.git, `remote: ${told(name)}`)
      }
    }

  const client = openPageClient(url)
  t.match(await client.get('/acme/open'), { status: 401, body: told('open') })
  t.match(await client.get('/acme/secret'), { status: 303, body: '' })
  await createAccount(server, 'visitor')
  await client.signIn('visitor')
  t.match(await client.get('/acme/open/checks'), { status: 404, body: told('open') })
  t.match((await client.get('/beta/open/checks')).body, 'is called beta/closed now')
  t.notMatch((await client.get('/acme/secret')).body, 'new-secret')
  const badge = async (name: string) => (await fetch(`${url}/acme/${name}/badge.svg`)).status
  t.same(await Promise.all(['open', 'new-open', 'secret', 'missing'].map(badge)), [200, 200, 404, 404])
})

for (const database of databases)
  t.test(`${database.name}: an unknown name is answered while something is changed`, async (t) => {
    const { read, store, url } = await startServer(t, { database })
    const held = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    // The only connection for pages and changes.
    const change = store.engine.kysely.transaction().execute(async () => {
      begun.resolve()
      await held.promise
    })
    await begun.promise
    const git = async () => (await fetch(`${url}/acme/missing.git/info/refs?service=git-upload-pack`)).status
    const answers = Promise.all([read('acme/missing', SHA).then(({ status }) => status), git()])
    const waits = setTimeout(20_000, 'waits', { ref: false })
    const answered = await Promise.race([answers, waits]).finally(() => held.resolve())
    await change
    await answers
    t.same(answered, [401, 401])
  })

import t from 'tap'
import { basic, createCheckout, git, tryGit } from '../git-http/client.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases, sqlite } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { callerOf, startServer } from '../helpers/server.ts'

const UNKNOWN = 'f'.repeat(40)

for (const database of databases) {
  t.test(`limited tokens on ${database.name}, over two processes`, async (t) => {
    const server = await startServer(t, { database })
    const { store, options } = server
    const ids: Record<string, number> = {}
    const shas: Record<string, string> = {}
    for (const name of ['public', 'listed', 'other']) {
      const { commits } = await server.createRepository(`acme/${name}`, { private: name !== 'public' })
      shas[name] = commits[0] ?? ''
      ids[name] = (await store.repositories.get('acme', name)).id
      await asAdministrator(store).collaborators.set(
        { owner: 'acme', name },
        await server.createUser('bot'),
        'write',
      )
    }
    const idOf = (name: string) => ids[name] ?? Number.NaN
    const shaOf = (name: string) => shas[name] ?? ''
    const processes = [callerOf(server.url), await startInstance(t, options)]
    /** Sends a report through each process and returns the statuses. */
    const report = async (name: string, token: string, context?: string, sha = shaOf(name)) => {
      const body = { state: 'success', ...(context !== undefined && { context }) }
      const answers = []
      for (const { report } of processes) answers.push(await report(`acme/${name}`, sha, body, token))
      const [first] = answers
      for (const { body, status } of answers)
        if (status !== 201) t.equal(body, first?.body, 'the same answer from both')
      return answers.map(({ status }) => status)
    }
    const read = async (name: string, token: string) => {
      const answers = []
      for (const { read } of processes) answers.push(await read(`acme/${name}`, UNKNOWN, token))
      return answers.map(({ status, body }) => `${status} ${body}`)
    }

    t.test('repositories: another one is one without access', async (t) => {
      const token = await server.createToken('bot', { limits: { repositories: [idOf('listed')] } })
      t.same(await report('listed', token), [201, 201])
      t.same(await report('other', token), [404, 404])
      t.same(await report('public', token), [403, 403])
      t.same(await read('other', token), await read('missing', token))
      t.match((await read('public', token))[0], /^404 .*commit/, 'a public one can be read')
      // Digits of a listed id are not that id.
      const similar = Number(`${idOf('listed')}${idOf('other')}`)
      const near = await server.createToken('bot', { limits: { repositories: [similar] } })
      for (const name of ['listed', 'other']) t.same(await report(name, near), [404, 404])
      // A limit gives no access.
      const stranger = await server.createToken('nobody', { limits: { repositories: [idOf('listed')] } })
      t.same(await report('listed', stranger), [404, 404])
      await asAdministrator(server.store).collaborators.set(
        { owner: 'acme', name: 'listed' },
        await server.createUser('nobody'),
        'read',
      )
      t.same(await report('listed', stranger), [403, 403])
    })

    t.test('a token of which every repository was deleted can do nothing', async (t) => {
      const { commits } = await server.createRepository('acme/short', { private: true })
      const { id } = await store.repositories.get('acme', 'short')
      const token = await server.createToken('acme', { name: 'short', limits: { repositories: [id] } })
      const list = async () => {
        const tokens = await store.tokens.list(await server.createUser('acme'))
        return tokens.find(({ name }) => name === 'short')?.repositories
      }
      t.same(await report('short', token, 'ci', commits[0]), [201, 201])
      t.same(await list(), ['acme/short'])
      await asAdministrator(store).repositories.delete({ owner: 'acme', name: 'short' })
      t.same(await report('short', token, 'ci', commits[0]), [404, 404])
      t.same(await report('listed', token), [404, 404], 'although the owner of the token owns it')
      t.same(await report('public', token), [403, 403])
      t.same(await list(), [])
      await server.createRepository('acme/short', { private: true })
      t.same(await report('short', token, 'ci', commits[0]), [404, 404], 'another one of that name')
    })

    t.test('a revoked one is refused by both processes from the next request on', async (t) => {
      const token = await server.createToken('once', { limits: { repositories: [idOf('public')] } })
      t.same(await report('public', token), [403, 403])
      const [info] = await store.tokens.list(await server.createUser('once'))
      await asAdministrator(store).tokens.revoke(info?.id ?? '')
      t.same(await report('public', token), [401, 401])
    })

    // The rest does not depend on the database.
    if (database !== sqlite) return

    t.test('contexts: after the validation, before the lookup of the commit', async (t) => {
      const token = await server.createToken('bot', { limits: { contexts: ['ci/*', 'exact'] } })
      for (const [context, expected] of [
        ['ci/', 201],
        ['ci/build/linux', 201],
        ['exact', 201],
        ['CI/build', 403],
        ['exact ', 403],
        ['deploy', 403],
        [undefined, 403],
      ] as const)
        t.same(await report('listed', token, context), [expected, expected], `${context}`)
      const { call, report: send } = callerOf(server.url)
      t.match(await send('acme/listed', UNKNOWN, { state: 'success', context: 'deploy "x"' }, token), {
        status: 403,
        json: {
          error:
            'This token may not report the context "deploy \\"x\\"". It is limited to contexts that match "ci/*" or "exact".',
        },
      })
      const invalid = { state: 'no', context: 'deploy' }
      t.equal((await send('acme/listed', UNKNOWN, invalid, token)).status, 422)
      t.equal((await send('acme/listed', 'abc', { state: 'success', context: 'deploy' }, token)).status, 422)
      t.equal((await send('acme/listed', UNKNOWN, { state: 'success', context: 'ci/x' }, token)).status, 404)
      const path = `/api/v1/repos/acme/listed/statuses/${shaOf('listed')}`
      const text = { token, body: '{', headers: { 'content-type': 'text/plain' } }
      t.equal((await call('POST', path, text)).status, 415)
    })

    t.test('git: fetches what it may read, and pushes nothing', async (t) => {
      const token = await server.createToken('bot', {
        limits: { repositories: [idOf('listed'), idOf('public')], push: false },
      })
      const authorization = basic('bot', token)
      const url = (name: string) => `${server.url}/acme/${name}.git`
      const folder = await createCheckout(t, url('listed'))
      await git(folder, ['fetch', '--quiet', 'origin'], { authorization })
      for (const name of ['listed', 'public']) {
        const pushed = await tryGit(folder, ['push', url(name), 'HEAD:refs/heads/new'], { authorization })
        t.not(pushed.code, 0)
        t.match(pushed.stderr, /403/)
        t.equal((await git(folder, ['ls-remote', url(name), 'new'], { authorization })).length, 0)
      }
      t.match((await tryGit(folder, ['ls-remote', url('other')], { authorization })).stderr, /not found/)
      // The other limits do not keep a token from pushing.
      const pushing = await server.createToken('bot', {
        limits: { repositories: [idOf('listed')], contexts: ['ci'] },
      })
      const allowed = { authorization: basic('bot', pushing) }
      await git(folder, ['push', '--quiet', 'origin', 'HEAD:refs/heads/new'], allowed)
      t.not((await tryGit(folder, ['push', url('public'), 'HEAD:refs/heads/new'], allowed)).code, 0)
    })
  })
}

import t from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { databases } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { addReport } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'

for (const database of databases) {
  t.test(`who reported, on ${database.name}`, async (t) => {
    const server = await startServer(t, { database })
    const { store, report, read } = server
    const { commits } = await server.createRepository('acme/repo')
    const [sha = ''] = commits
    const { id } = await store.repositories.get('acme', 'repo')
    for (const user of ['ci-bot', 'dora'])
      await asAdministrator(store).collaborators.set(
        { owner: 'acme', name: 'repo' },
        await server.createUser(user),
        'write',
      )
    const first = await server.createToken('ci-bot', { name: 'CI of rocket' })
    const second = await server.createToken('dora', { name: 'laptop' })
    const reporters = async () => {
      const rows = await store.statuses.listWithReporters({ repositoryId: id, sha })
      return rows.map((row) => [row.context, row.reporter_user, row.reporter_token])
    }

    t.test('the user and the token of the latest report', async (t) => {
      await report('acme/repo', sha, { state: 'success', context: 'a' }, first)
      const before = (await read('acme/repo', sha)).json
      await report('acme/repo', sha, { state: 'failure', context: 'b' }, first)
      await report('acme/repo', sha, { state: 'success', context: 'b' }, second)
      await addReport({ store, repositoryId: id, sha }, 'c')
      const expected = [
        ['a', 'ci-bot', 'CI of rocket'],
        ['b', 'dora', 'laptop'],
        ['c', null, null],
      ]
      t.same(await reporters(), expected)
      const { json } = await read('acme/repo', sha)
      t.same(json.statuses?.[0], before.statuses?.[0], 'the API does not show it')

      for (const { id } of await store.tokens.list(await server.createUser('ci-bot')))
        await asAdministrator(store).tokens.revoke(id)
      await asAdministrator(store).users.delete('dora')
      t.same(await reporters(), expected, 'also of a revoked token and of a deleted user')
      await server.createToken('dora', { name: 'another laptop' })
      t.same(await reporters(), expected, 'and not of the next user of that name')
    })

    t.test('a deleted status is gone in every process at once', async (t) => {
      const { url: _url, ...other } = await startInstance(t, server.options, { MAX_CONTEXTS: '3' })
      const token = await server.createToken('acme')
      const both = [server, other]
      const tags = async () => {
        const answers = []
        for (const { read } of both) answers.push(await read('acme/repo', sha))
        return answers.map(({ json, headers }) => [json.state, json.statuses?.length, headers.get('etag')])
      }
      await other.report('acme/repo', sha, { state: 'failure', context: 'c' }, token)
      const [before] = await tags()
      t.match(before, ['failure', 3])
      t.match(await other.report('acme/repo', sha, { state: 'error', context: 'd' }, token), { status: 422 })
      await asAdministrator(store).statuses.delete({ repositoryId: id, sha }, 'c')
      const [after, elsewhere] = await tags()
      t.match(after, ['success', 2])
      t.same(after, elsewhere)
      t.not(after?.[2], before?.[2])
      t.same(await store.summaries.countByState(id, sha), { pending: 0, success: 2, failure: 0, error: 0 })
      t.match(
        await other.report('acme/repo', sha, { state: 'success', context: 'd' }, token),
        { status: 201 },
        'there is room for another context',
      )
      for await (const events of store.auditLog.list({ repository: 'ACME/repo' }))
        t.match(
          events.filter(({ action }) => action === 'status.deleted'),
          [{ actor: 'administrator', object: 'acme/repo', details: { sha, context: 'c' } }],
        )
      await t.rejects(asAdministrator(store).statuses.delete({ repositoryId: id, sha }, 'c'), {
        name: 'Refusal',
        message: /"c"/,
      })
      for (const context of ['a', 'b', 'd'])
        await asAdministrator(store).statuses.delete({ repositoryId: id, sha }, context)
      t.same(
        (await tags()).map(([state, length]) => [state, length]),
        [
          [null, 0],
          [null, 0],
        ],
      )
      t.equal(await store.statuses.hasAny(id, sha), false)
    })
  })
}

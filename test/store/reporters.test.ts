import t from 'tap'
import { basic, createCheckout, git as runGit } from '../git-http/client.ts'
import { asAdministrator } from '../helpers/changes.ts'
import { databases } from '../helpers/databases.ts'
import { startInstance } from '../helpers/instance.ts'
import { createAccount, openPageClient } from '../helpers/page-client.ts'
import { addReport } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'
import { signIn } from '../helpers/sessions.ts'

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

    t.test('an admin of a repository sees which tokens were used there', async (t) => {
      const day = 86_400_000
      const { repository, path } = { repository: 'acme/kit', path: '/acme/kit/settings/access' }
      await server.createRepository(repository)
      const kit = await store.repositories.get('acme', 'kit')
      for (const user of ['ada', 'eve']) await createAccount(server, user)
      for (const [user, permission] of [
        ['ci-bot', 'write'],
        ['eve', 'write'],
        ['ada', 'admin'],
      ] as const)
        await asAdministrator(store).collaborators.set(
          { owner: 'acme', name: 'kit' },
          await server.createUser(user),
          permission,
        )
      const pusher = await server.createToken('eve', { name: 'laptop of eve' })
      const ci = await server.createToken('ci-bot', { name: '<b>CI</b>' })
      const idle = await server.createToken('ci-bot', { name: 'idle' })
      const used = async (since = Date.now() - day) =>
        (await store.usedTokens(kit.id, since)).map(({ user, token, pushedAt, reportedAt }) => [
          ...[user, token, pushedAt !== null, reportedAt !== null],
        ])
      t.same(await used(), [])

      const checkout = await createCheckout(t, `${server.url}/acme/kit.git`)
      const head = await runGit(checkout, ['rev-parse', 'HEAD'])
      await runGit(checkout, ['push', '--quiet', 'origin', 'main:work', 'main:topic'], {
        authorization: basic('x', pusher),
      })
      t.same(await used(), [['eve', 'laptop of eve', true, false]])
      await report(repository, head, { state: 'success', context: 'a' }, ci)
      await report(repository, head, { state: 'success', context: 'b' }, pusher)
      const run = { state: 'success', context: 'c', run: 'R', claim: 300 }
      const { json: claimed } = await report(repository, head, run, ci)
      const ada = await signIn(store, { id: await server.createUser('ada'), name: 'ada' })
      await store.audit.transaction(ada, (change) =>
        store.statuses.requestRun(
          change,
          { owner: 'acme', name: 'kit' },
          { sha: head, id: claimed.id ?? '' },
        ),
      )
      // The same commit elsewhere, and a read.
      await runGit(checkout, ['push', '--quiet', `${server.url}/acme/repo.git`, 'main:copy'], {
        authorization: basic('x', idle),
      })
      await report('acme/repo', head, { state: 'success', context: 'a' }, idle)
      await read(repository, head, idle)
      await runGit(checkout, ['push', '--quiet', 'origin', ':topic'], { authorization: basic('x', pusher) })
      const all = [
        ['ci-bot', '<b>CI</b>', false, true],
        ['eve', 'laptop of eve', true, true],
      ]
      t.same((await used()).sort(), all)
      const db = store.engine.kysely
      const pushes = db.selectFrom('audit_events').selectAll().where('action', '=', 'push')
      const { id: _, ...push } = await pushes.where('repository_id', '=', kit.id).executeTakeFirstOrThrow()
      const ticket = { ref: 'refs/landing/main/x', old: '0'.repeat(40), new: '1'.repeat(40) }
      const renewal = { ...push, time: Date.now(), details: JSON.stringify({ updates: [ticket] }) }
      await db
        .insertInto('audit_events')
        .values(Array.from({ length: 150 }, () => renewal))
        .execute()
      t.same((await used()).sort(), all, 'tickets of a landing hide nobody')
      t.same(await used(Date.now() + day), [], 'neither earlier pushes nor earlier reports')
      for (const { id } of await store.tokens.list(await server.createUser('ci-bot')))
        await asAdministrator(store).tokens.revoke(id)
      t.same((await used()).sort(), all, 'also those that were revoked')

      const admin = openPageClient(server.url)
      await admin.signIn('ada')
      const { status, body } = await admin.get(path)
      t.equal(status, 200)
      t.match(body, /<th scope="row">ci-bot<\/th>\s*<td[^>]*><bdi>&lt;b&gt;CI&lt;\/b&gt;<\/bdi>/)
      t.match(body, /<th scope="row">eve<\/th>\s*<td[^>]*><bdi>laptop of eve<\/bdi><\/td>\s*<td[^>]*><time/)
      t.notMatch(body, 'idle')
      const eve = openPageClient(server.url)
      await eve.signIn('eve')
      const { status: refusedWith, body: refusal } = await eve.get(path)
      t.equal(refusedWith, 403, 'it is for admins')
      t.notMatch(refusal, 'laptop of eve')

      for (const [days, isShown] of [
        [29, true],
        [31, false],
      ] as const) {
        const pushes = store.engine.kysely.updateTable('audit_events').where('repository_id', '=', kit.id)
        await pushes.set({ time: Date.now() - days * day }).execute()
        t.equal((await admin.get(path)).body.includes('laptop of eve'), isShown, `${days} days ago`)
      }
    })
  })
}

import { once } from 'node:events'
import t from 'tap'
import { asAdministrator } from './helpers/changes.ts'
import { databases, type TestDatabase } from './helpers/databases.ts'
import { startInstance } from './helpers/instance.ts'
import { startPostgres } from './helpers/postgres-server.ts'
import { startServer } from './helpers/server.ts'

// The tests mostly wait for processes.
t.jobs = 3

for (const database of databases) {
  t.test(`two processes on one ${database.name} database`, async (t) => {
    const { store, options, ...admin } = await startServer(t, { database })
    const { commits } = await admin.createRepository('acme/repo', { private: true, commits: 17 })
    const [sha = '', ...others] = commits
    const repo = 'acme/repo'
    const limits = { AUTH_FAILURE_LIMIT: '10', MAX_CONTEXTS: '30' }
    const [a, b] = await Promise.all([startInstance(t, options, limits), startInstance(t, options, limits)])

    t.test('each process returns what the other stored', async (t) => {
      const token = await admin.createToken('acme')
      for (const [index, writer, reader] of [
        [0, a, b],
        [1, b, a],
      ] as const) {
        t.equal((await reader.read(repo, sha, token)).json.statuses?.length, index)
        t.equal(
          (await writer.report(repo, sha, { state: 'success', context: `${index}` }, token)).status,
          201,
        )
        t.equal((await reader.read(repo, sha, token)).json.statuses?.length, index + 1)
      }
      t.equal((await a.read(repo, sha, token)).body, (await b.read(repo, sha, token)).body)
    })

    t.test('a revoked token is refused by both processes from the next request on', async (t) => {
      const token = await admin.createToken('acme')
      for (const { read } of [a, b]) t.equal((await read(repo, sha, token)).status, 200)
      const user = await store.users.find('acme')
      for (const { id } of await store.tokens.list(user?.id ?? 0))
        await asAdministrator(store).tokens.revoke(id)
      for (const { read } of [b, a]) t.equal((await read(repo, sha, token)).status, 401)
    })

    t.test('changes of access and visibility take effect in both processes at once', async (t) => {
      const token = await admin.createToken('bob')
      const userId = await admin.createUser('bob')
      for (const [permission, expected] of [
        [null, 404],
        ['write', 201],
        ['read', 403],
        ['write', 201],
        [null, 404],
      ] as const) {
        await asAdministrator(store).collaborators.set({ owner: 'acme', name: 'repo' }, userId, permission)
        for (const { report } of [a, b]) {
          t.equal((await report(repo, sha, { state: 'success' }, token)).status, expected)
        }
      }
      for (const [visibility, expected] of [
        ['public', 200],
        ['private', 401],
      ] as const) {
        await asAdministrator(store).repositories.setVisibility({ owner: 'acme', name: 'repo' }, visibility)
        for (const { read } of [a, b]) t.equal((await read(repo, sha)).status, expected)
      }
    })

    t.test('both processes share one exact limit of contexts', async (t) => {
      const token = await admin.createToken('acme')
      const { commits } = await admin.createRepository('acme/full', { commits: 1 })
      const [full = ''] = commits
      const answers = await Promise.all(
        Array.from({ length: 60 }, async (_, index) => {
          const { report } = index % 2 ? b : a
          const { status, json } = await report(
            'acme/full',
            full,
            { state: 'success', context: `${index}` },
            token,
          )
          return { status, error: json.error }
        }),
      )
      t.equal(answers.filter(({ status }) => status === 201).length, 30)
      const refusals = answers.filter(({ status }) => status !== 201)
      t.equal(refusals.length, 30)
      for (const refusal of refusals)
        t.match(refusal, { status: 422, error: /^context: .* 30 contexts, the maximum/ })
      const { json } = await a.read('acme/full', full)
      for (const { context } of json.statuses ?? [])
        t.equal((await b.report('acme/full', full, { state: 'error', context }, token)).status, 201)
      const unknown = await b.report('acme/full', 'f'.repeat(40), { state: 'error', context: 'new' }, token)
      t.equal(unknown.status, 404, 'a missing commit takes precedence')
    })

    t.test('the processes share one failure budget', async (t) => {
      await asAdministrator(store).failures.lift('127.0.0.1')
      const answers = await Promise.all(
        Array.from({ length: 100 }, (_, index) => (index % 2 ? b : a).read(repo, sha, `wrong-${index}`)),
      )
      t.equal(answers.filter(({ status }) => status === 401).length, 10)
      t.equal(answers.filter(({ status }) => status === 429).length, 90)
    })

    t.test('a killed process loses nothing that it acknowledged', async (t) => {
      await asAdministrator(store).failures.lift('127.0.0.1')
      const token = await admin.createToken('acme')
      const acknowledged: string[] = []
      const exited = once(a.child, 'exit')
      const load = [a, b].flatMap((instance, at) =>
        Array.from({ length: 4 }, async (_, worker) => {
          for (let index = 0; index < 50; index++) {
            // Fewer on each commit than the limit.
            const commit = others[(4 * at + worker + index) % others.length] ?? ''
            const context = `${at}/${worker}/${index}`
            const answer = await instance
              .report(repo, commit, { state: 'success', context }, token)
              .catch(() => null)
            if (!answer) return
            t.equal(answer.status, 201)
            acknowledged.push(context)
            if (at === 0 && acknowledged.length >= 60) a.child.kill('SIGKILL')
          }
        }),
      )
      await Promise.all([...load, exited])
      const answers = await Promise.all(others.map((commit) => b.read(repo, commit, token)))
      const stored = new Set(answers.flatMap(({ json }) => json.statuses ?? []).map(({ context }) => context))
      t.same(
        acknowledged.filter((context) => !stored.has(context)),
        [],
      )
      t.ok(acknowledged.length > 200, 'also of the killed one')
    })
  })
}

t.test('a PostgreSQL server that crashes under load', async (t) => {
  const server = await startPostgres()
  t.teardown(() => server.stop())
  const database: TestDatabase = {
    name: 'PostgreSQL',
    create: async () => ({ dataDir: t.testdir(), databaseUrl: server.url }),
  }
  const { createToken, createRepository, report, read } = await startServer(t, { database })
  const token = await createToken('acme')
  const { commits } = await createRepository('acme/repo')
  const [sha = ''] = commits
  const acknowledged: string[] = []
  const statuses = new Set<number>()
  let recovered = false
  const load = Array.from({ length: 6 }, async (_, worker) => {
    for (let index = 0; !recovered; index++) {
      const context = `${worker}/${index}`
      const { status } = await report('acme/repo', sha, { state: 'success', context }, token)
      statuses.add(status)
      if (status === 201) acknowledged.push(context)
    }
  })
  while (acknowledged.length < 50) await read('acme/repo', sha)
  await server.crash()
  while ((await report('acme/repo', sha, { state: 'success' }, token)).status !== 201);
  recovered = true
  await Promise.all(load)
  t.same([...statuses].sort(), [201, 503], 'no other status')
  const { json } = await read('acme/repo', sha)
  const stored = new Set(json.statuses?.map((status) => status.context))
  t.same(
    acknowledged.filter((context) => !stored.has(context)),
    [],
  )
})

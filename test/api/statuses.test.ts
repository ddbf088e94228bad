import { existsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { asAdministrator } from '../helpers/changes.ts'
import { git } from '../helpers/git.ts'
import { startServer } from '../helpers/server.ts'

const STATES = ['pending', 'success', 'failure', 'error'] as const

async function setUp(t: Test, commits = 1) {
  const server = await startServer(t)
  const repository = await server.createRepository('acme/rocket', { commits })
  const [sha = ''] = repository.commits
  const token = await server.createToken('acme')
  const report = (body: object, id = sha) => server.report('acme/rocket', id, body, token)
  const read = async (id = sha) => (await server.read('acme/rocket', id)).json
  return { server, ...repository, sha, token, report, read }
}

/** The rules of `state` in `CommitStatuses` of openapi.yaml, one per line. */
function combinedStateRule(states: readonly string[]): string | null {
  for (const state of states) if (state === 'failure' || state === 'error') return 'failure'
  for (const state of states) if (state === 'pending') return 'pending'
  if (states.length > 0) return 'success'
  return null
}

t.test('statuses belong to one commit of one repository', async (t) => {
  const { server, path, commits, report, read, token } = await setUp(t, 2)
  const [first = '', second = ''] = commits
  const copy = { owner: 'acme', name: 'copy', visibility: 'public', objectFormat: 'sha1', path } as const
  await asAdministrator(server.store).repositories.create(copy)
  await report({ state: 'failure' }, first)
  t.match(await read(second), { state: null, statuses: [] })
  t.match((await server.read('acme/copy', first)).json, { state: null, statuses: [] })
  const other = await server.report('ACME/Copy', first, { state: 'success' }, token)
  t.equal(other.status, 201, 'names are case-insensitive')
  t.match(await read(first), { state: 'failure' })
})

t.test('deleting a repository also deletes its statuses', async (t) => {
  const { server, path, sha, report, token } = await setUp(t)
  await report({ state: 'failure' })
  await asAdministrator(server.store).repositories.delete({ owner: 'acme', name: 'rocket' })
  t.equal((await server.read('acme/rocket', sha, token)).status, 404)
  await rm(path, { recursive: true })
  const again = await server.createRepository('acme/rocket', { commits: 0 })
  t.not(again.path, path, 'ids are never reused')
  t.notOk(existsSync(path))
  t.equal(
    (await server.read('acme/rocket', sha, token)).status,
    404,
    'a new repository of the same name starts empty',
  )
})

t.test('deleting a user keeps the statuses that the user reported', async (t) => {
  const { server, sha } = await setUp(t)
  const token = await server.createToken('guest')
  const guest = await server.createUser('guest')
  await asAdministrator(server.store).collaborators.set({ owner: 'acme', name: 'rocket' }, guest, 'write')
  t.equal((await server.report('acme/rocket', sha, { state: 'success' }, token)).status, 201)
  await asAdministrator(server.store).users.delete('guest')
  t.equal(
    (await server.report('acme/rocket', sha, { state: 'error' }, token)).status,
    401,
    'tokens stop working at once',
  )
  t.match((await server.read('acme/rocket', sha)).json, { state: 'success' })
})

t.test('combined state of every combination of up to three statuses', async (t) => {
  const lists: (typeof STATES)[number][][] = [[]]
  for (let from = 0, length = 0; length < 3; length++) {
    const end = lists.length
    for (; from < end; from++) for (const state of STATES) lists.push([...(lists[from] ?? []), state])
  }
  t.equal(lists.length, 1 + 4 + 16 + 64)
  const server = await startServer(t)
  const { commits } = await server.createRepository('acme/rocket', { commits: lists.length })
  const token = await server.createToken('acme')
  await Promise.all(
    lists.flatMap((states, index) =>
      states.map((state, place) =>
        server.report('acme/rocket', commits[index] ?? '', { state, context: `${place}` }, token),
      ),
    ),
  )
  for (const [index, states] of lists.entries()) {
    const sha = commits[index] ?? ''
    const { state, statuses } = (await server.read('acme/rocket', sha)).json
    t.equal(state, combinedStateRule(states), states.join(', ') || 'none')
    t.same(
      statuses?.map((status) => status.state),
      states,
    )
  }
})

t.test('only commits of the repository have statuses', async (t) => {
  const { server, path, sha, report, token } = await setUp(t)
  const tree = git(path, 'rev-parse', `${sha}^{tree}`)
  const blob = git(path, 'hash-object', '-w', join(path, 'HEAD'))
  git(path, 'tag', '--annotate', '--message', 'v1', 'v1', sha)
  const tag = git(path, 'rev-parse', 'v1')
  for (const [what, id] of Object.entries({ tree, blob, tag })) {
    t.equal((await report({ state: 'success' }, id)).status, 404, `not a ${what}`)
    t.equal((await server.read('acme/rocket', id)).status, 404, `not a ${what}`)
  }
  const shadow = 'a'.repeat(40)
  git(path, 'update-ref', `refs/heads/${shadow}`, sha)
  git(path, 'update-ref', `refs/heads/${'b'.repeat(64)}`, sha)
  t.equal(
    (await report({ state: 'success' }, shadow)).status,
    404,
    'a branch named like a commit id is not a commit',
  )
  t.equal(
    (await report({ state: 'success' }, 'b'.repeat(64))).status,
    422,
    'the length of another object format',
  )
  git(path, 'replace', '--force', blob, sha)
  t.equal((await report({ state: 'success' }, blob)).status, 404, 'a replaced object is not a commit')

  const loose = git(path, 'commit-tree', '-m', 'on no branch', tree)
  t.equal(
    (await server.report('acme/rocket', loose, { state: 'success' }, token)).status,
    201,
    'an unreachable commit',
  )
})

t.test('a new commit is known at once, and a reported one survives a gc', async (t) => {
  const { server, path, sha, report, read } = await setUp(t)
  const tree = git(path, 'rev-parse', `${sha}^{tree}`)
  for (let index = 0; index < 5; index++) {
    const id = git(path, 'commit-tree', '-p', sha, '-m', `${index}`, tree)
    t.equal((await report({ state: 'success' }, id)).status, 201)
  }
  const gone = git(path, 'commit-tree', '-m', 'to be pruned', tree)
  await report({ state: 'error' }, gone)
  await rm(join(path, 'objects', gone.slice(0, 2), gone.slice(2)))
  t.match(await read(gone), { state: 'failure' })
  t.equal((await report({ state: 'success' }, gone)).status, 201)
  t.match(await read(gone), { state: 'success' })
  t.equal((await server.read('acme/rocket', gone)).status, 200)
})
